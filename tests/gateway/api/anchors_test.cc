#include "gateway/api/anchors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/gateway/tokenizer/small_tokenizer.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kStart = 270;

// The small tokenizer, with a token that begins messages.
std::unique_ptr<Tokenizer> MakeChatTokenizer() {
  nlohmann::json json = SmallTokenizerJson();
  nlohmann::json start = json["added_tokens"][0];
  start["id"] = kStart;
  start["content"] = "<|im_start|>";
  json["added_tokens"].push_back(start);
  const std::string text = json.dump();
  TokenizerText source;
  source.tokenizer_json = text;
  return *Tokenizer::Create(*ParseTokenizerTables(source));
}

class AnchorsTest : public testing::Test {
 protected:
  const std::unique_ptr<Tokenizer> tokenizer_ = MakeChatTokenizer();
};

TEST_F(AnchorsTest, EveryMessageButTheFirstBeginsAtOne) {
  const std::vector<int32_t> ids = {kStart, 1, 2, kStart, 3, kStart, 4};

  EXPECT_THAT(FindAnchors(ids, tokenizer_.get(), 1), ElementsAre(3, 5));
}

TEST_F(AnchorsTest, TextInFrontOfTheFirstMessageCounts) {
  const std::vector<int32_t> ids = {1, kStart, 2};

  EXPECT_THAT(FindAnchors(ids, tokenizer_.get(), 1), ElementsAre(1));
}

TEST_F(AnchorsTest, ChoicesPartBeforeTheLastToken) {
  const std::vector<int32_t> ids = {kStart, 1, kStart, 2, 3};

  EXPECT_THAT(FindAnchors(ids, tokenizer_.get(), 2), ElementsAre(2, 4));
}

TEST_F(AnchorsTest, APlaceWithTwoReasonsIsNamedOnce) {
  const std::vector<int32_t> ids = {1, 2, kStart};

  EXPECT_THAT(FindAnchors(ids, tokenizer_.get(), 2), ElementsAre(2));
}

TEST_F(AnchorsTest, APromptOfOneTokenHasNone) {
  EXPECT_THAT(FindAnchors(std::vector<int32_t>{kStart}, tokenizer_.get(), 2),
              IsEmpty());
}

TEST_F(AnchorsTest, OfTooManyTheFirstAndTheLastStay) {
  const std::vector<int32_t> ids(300, kStart);  // 299 of them.

  const std::vector<int32_t> anchors = FindAnchors(ids, tokenizer_.get(), 1);

  ASSERT_EQ(anchors.size(), kMostAnchors);
  EXPECT_EQ(anchors.front(), 1);
  EXPECT_EQ(anchors[127], 128);
  EXPECT_EQ(anchors[128], 172);
  EXPECT_EQ(anchors.back(), 299);
}

TEST_F(AnchorsTest, WithoutATokenizerThereAreNoMessages) {
  const std::vector<int32_t> ids = {1, kStart, 2};

  EXPECT_THAT(FindAnchors(ids, nullptr, 1), IsEmpty());
  EXPECT_THAT(FindAnchors(ids, nullptr, 2), ElementsAre(2));
}

}  // namespace
}  // namespace phalanx
