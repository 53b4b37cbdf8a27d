#include "gateway/api/resume_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "common/reason.h"
#include "inference.pb.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ResumePoint PointOf(int choices) {
  ResumePoint point;
  point.request_digest = std::string(32, 'd');
  point.numerics_id = "0123456789abcdef/bf16/fma/7";
  point.seed = ~uint64_t{0};
  point.prompt_sent = true;
  for (int i = 0; i < choices; ++i)
    point.choices.push_back({.tokens = int64_t{1} << 20,
                             .ids_digest = IdsDigest(std::vector<int32_t>{i}),
                             .text_bytes = {int64_t{1} << 24, 127 + i, 0}});
  return point;
}

ResumeKey KeyOf(char c) { return ResumeKey::Of(std::string(32, c)); }

TEST(ResumeToken, OpensWhatWasSealed) {
  const ResumeKey key = KeyOf('k');
  for (const int choices : {1, 2, 16}) {
    const auto opened = key.Open(key.Seal(PointOf(choices)));
    ASSERT_OK(opened);
    EXPECT_EQ(*opened, PointOf(choices));
  }
}

TEST(ResumeToken, OpensAPointOfNothingSent) {
  const ResumeKey key = KeyOf('k');
  ResumePoint point = PointOf(1);
  point.prompt_sent = false;
  point.choices = {SentPart()};
  EXPECT_EQ(*key.Open(key.Seal(point)), point);
}

TEST(ResumeToken, HasAtMostAKibibyteOfTheUrlsAlphabet) {
  const std::string token = KeyOf('k').Seal(PointOf(ResumeKey::kMaxChoices));
  EXPECT_LE(token.size(), ResumeKey::kMaxTokenBytes);
  EXPECT_EQ(token.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno"
                                    "pqrstuvwxyz0123456789-_"),
            std::string::npos);
}

TEST(ResumeToken, IsOfOneKey) {
  const auto opened = KeyOf('l').Open(KeyOf('k').Seal(PointOf(1)));
  EXPECT_THAT(opened, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("--resume-key-file")));
  EXPECT_EQ(ReasonOf(opened.status()).word, "BAD_RESUME_TOKEN");
}

TEST(ResumeToken, ProcessesWithoutAKeyFileHaveUnlikeKeys) {
  const std::string token = ResumeKey::Random().Seal(PointOf(1));
  EXPECT_FALSE(ResumeKey::Random().Open(token).ok());
}

TEST(ResumeToken, AChangeOfAnyByteIsFound) {
  const ResumeKey key = KeyOf('k');
  const std::string token = key.Seal(PointOf(2));
  // The last character holds bits that are no byte's.
  for (size_t i = 0; i + 1 < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(key.Open(changed).ok()) << i;
  }
}

TEST(ResumeToken, NoFrontOfOneIsOne) {
  const ResumeKey key = KeyOf('k');
  const std::string token = key.Seal(PointOf(2));
  for (size_t size = 0; size + 1 < token.size(); ++size)
    EXPECT_EQ(ReasonOf(key.Open(token.substr(0, size)).status()).word,
              "BAD_RESUME_TOKEN");
}

TEST(ResumeToken, RandomBytesAreNone) {
  const ResumeKey key = KeyOf('k');
  std::mt19937 random(7);
  for (int i = 0; i < 10000; ++i) {
    std::string bytes(random() % 1200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    EXPECT_EQ(ReasonOf(key.Open(bytes).status()).word, "BAD_RESUME_TOKEN");
  }
}

TEST(RequestDigest, IsOfTheContent) {
  v1::GenerateRequest request;
  request.set_text("p");
  (*request.mutable_sampling()->mutable_logit_bias())[1] = 1;
  (*request.mutable_sampling()->mutable_logit_bias())[2] = 2;
  v1::GenerateRequest same;
  (*same.mutable_sampling()->mutable_logit_bias())[2] = 2;
  (*same.mutable_sampling()->mutable_logit_bias())[1] = 1;
  same.set_text("p");
  EXPECT_EQ(RequestDigest(request), RequestDigest(same));
  same.set_text("q");
  EXPECT_NE(RequestDigest(request), RequestDigest(same));
}

TEST(RequestDigest, IsOfTheKindOfRequest) {
  EXPECT_NE(RequestDigest(v1::GenerateRequest()),
            RequestDigest(v1::ChatRequest()));
}

TEST(IdsDigest, TellsListsApart) {
  const auto digest = [](std::vector<int32_t> ids) { return IdsDigest(ids); };
  EXPECT_EQ(digest({}), "");
  EXPECT_EQ(digest({1, 2}), digest({1, 2}));
  EXPECT_NE(digest({1, 2}), digest({2, 1}));
  EXPECT_NE(digest({1}), digest({1, 0}));
  EXPECT_NE(digest({1}), digest({256}));
}

class KeyFile : public testing::Test {
 protected:
  std::string Write(size_t bytes) {
    std::ofstream(path_, std::ios::binary) << std::string(bytes, '\n');
    return path_;
  }
  const std::string path_ = testing::TempDir() + "phalanx-resume-key";
};

TEST_F(KeyFile, ReplicasWithOneFileHaveOneKey) {
  const auto one = ResumeKey::Load(Write(32));
  const auto other = ResumeKey::Load(path_);
  ASSERT_OK(one);
  ASSERT_OK(other);
  EXPECT_OK(one->Open(other->Seal(PointOf(1))));
}

TEST_F(KeyFile, TheErrorNamesTheFileAndItsSize) {
  EXPECT_THAT(ResumeKey::Load(Write(31)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(path_),
                             HasSubstr("holds 31 bytes; must hold 32..4096"))));
  EXPECT_OK(ResumeKey::Load(Write(4096)));
  EXPECT_THAT(ResumeKey::Load(Write(4097)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("holds more than 4096 bytes")));
  EXPECT_THAT(ResumeKey::Load(path_ + "-none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path_)));
}

}  // namespace
}  // namespace phalanx
