#include "gateway/api/prepare.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/reason.h"
#include "tests/gateway/api/api_fixtures.h"
#include "tests/gateway/router/fake_worker.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Against a model of 300 tokens with stop id 261, a context of 100 tokens, and
// the defaults temperature 0.5, top_p 0.75, top_k 20, min_p 0.
class PrepareTest : public testing::Test {
 protected:
  static v1::GenerateRequest Request(const std::string& fields) {
    v1::GenerateRequest request;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(fields, &request));
    return request;
  }
  absl::StatusOr<PreparedRequest> Run(const std::string& fields) const {
    return Prepare(Request(fields), text_, leader_);
  }
  absl::StatusOr<PreparedRequest> RunChat(const std::string& fields) const {
    v1::ChatRequest request;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(fields, &request));
    return Prepare(request, text_, leader_);
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = MakeSmallTokenizer();
  const std::unique_ptr<ChatTemplate> template_ = MakeSmallTemplate();
  ModelText text_{.name = "mini",
                  .tokenizer = tokenizer_.get(),
                  .chat_template = template_.get()};
  const v1::WorkerStatus leader_ = ReadyStatus(0, 1, 7);
};

TEST_F(PrepareTest, UnsetFieldsTakeTheModelsDefaults) {
  const auto prepared = Run("text: 'abc'");
  ASSERT_OK(prepared);
  const v1::WorkerGenerateRequest& worker = prepared->worker;
  EXPECT_THAT(worker.prompt_ids(), ElementsAre('a', 'b', 'c'));
  EXPECT_EQ(worker.epoch(), 7u);
  EXPECT_EQ(worker.temperature(), 0.5f);
  EXPECT_EQ(worker.top_p(), 0.75f);
  EXPECT_EQ(worker.top_k(), 20);
  EXPECT_EQ(worker.min_p(), 0);
  EXPECT_THAT(worker.stop_ids(), ElementsAre(261));
  EXPECT_TRUE(prepared->wants_text);
  EXPECT_TRUE(prepared->wants_ids);
  EXPECT_FALSE(prepared->wants_logprobs);
}

TEST_F(PrepareTest, AcceptedSaysWhatIsGoingToHappen) {
  const auto prepared = Run("text: 'abc' sampling { temperature: 0 }");
  ASSERT_OK(prepared);
  const v1::Accepted& accepted = prepared->accepted;
  EXPECT_EQ(accepted.model(), "mini");
  EXPECT_EQ(accepted.model_digest(), "digest");
  EXPECT_EQ(accepted.numerics_id(), "numerics");
  EXPECT_EQ(accepted.epoch(), 7u);
  EXPECT_EQ(accepted.prompt_tokens(), 3);
  EXPECT_EQ(accepted.max_tokens(), 97);
  EXPECT_EQ(accepted.sampling().temperature(), 0);
  EXPECT_EQ(accepted.sampling().seed(), prepared->worker.seed());
}

TEST_F(PrepareTest, AGivenSeedAndIdAreKept) {
  const auto prepared = Run("text: 'a' request_id: 'me' sampling { seed: 9 }");
  ASSERT_OK(prepared);
  EXPECT_EQ(prepared->request_id, "me");
  EXPECT_EQ(prepared->worker.seed(), 9u);
}

TEST_F(PrepareTest, UnsetSeedsAndIdsAreDrawnAnew) {
  const auto first = Run("text: 'a'");
  const auto second = Run("text: 'a'");
  EXPECT_NE(first->worker.seed(), second->worker.seed());
  EXPECT_NE(first->request_id, second->request_id);
  EXPECT_EQ(first->request_id.size(), 16u);
}

TEST_F(PrepareTest, UnsetMaxTokensIsTheRestOfTheContext) {
  const auto prepared = Run("text: 'abc'");
  EXPECT_EQ(prepared->worker.max_tokens(), 97);
  EXPECT_FALSE(prepared->truncated);
}

TEST_F(PrepareTest, MaxTokensAboveTheRestIsCutAndSaidSo) {
  const auto prepared = Run("text: 'abc' stopping { max_tokens: 98 }");
  EXPECT_EQ(prepared->worker.max_tokens(), 97);
  EXPECT_EQ(prepared->accepted.max_tokens(), 97);
  EXPECT_TRUE(prepared->truncated);
}

TEST_F(PrepareTest, MaxTokensOutsideTheContextIsABadField) {
  for (const char* value : {"0", "-1", "101", "1000000000"}) {
    const absl::Status status =
        Run(std::string("text: 'abc' stopping { max_tokens: ") + value + " }")
            .status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 std::string("stopping.max_tokens is ") +
                                     value + "; must be 1..100"));
    EXPECT_EQ(ReasonOf(status).word, "BAD_FIELD");
  }
}

TEST_F(PrepareTest, APromptThatFillsTheContextIsTooLong) {
  v1::GenerateRequest request;
  for (int i = 0; i < 99; ++i) request.mutable_token_ids()->add_ids(i);
  EXPECT_EQ(Prepare(request, text_, leader_)->worker.max_tokens(), 1);
  request.mutable_token_ids()->add_ids(99);
  const absl::Status status = Prepare(request, text_, leader_).status();
  EXPECT_EQ(ReasonOf(status).word, "PROMPT_TOO_LONG");
  EXPECT_EQ(ReasonOf(status).metadata["limit"], "99");
  EXPECT_EQ(ReasonOf(status).metadata["actual"], "100");
}

TEST_F(PrepareTest, APromptWithoutTokensIsEmpty) {
  EXPECT_EQ(ReasonOf(Run("text: ''").status()).word, "PROMPT_EMPTY");
  EXPECT_EQ(ReasonOf(Run("token_ids {}").status()).word, "PROMPT_EMPTY");
}

TEST_F(PrepareTest, IdsOutsideTheVocabularyAreNamed) {
  EXPECT_THAT(Run("token_ids { ids: 5 ids: 300 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "token_ids holds 300; must be 0..299"));
  EXPECT_THAT(Run("text: 'a' stopping { stop_ids: -1 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "stopping.stop_ids holds -1; must be 0..299"));
}

TEST_F(PrepareTest, StopIdsAreTheModelsAndTheRequestsTogether) {
  EXPECT_THAT(
      Run("text: 'a' stopping { stop_ids: 290 stop_ids: 5 stop_ids: 5 }")
          ->worker.stop_ids(),
      ElementsAre(5, 261, 290));
}

TEST_F(PrepareTest, IgnoreEosLeavesOutTheModelsStopIds) {
  EXPECT_THAT(Run("text: 'a' stopping { stop_ids: 5 ignore_eos: true }")
                  ->worker.stop_ids(),
              ElementsAre(5));
}

TEST_F(PrepareTest, TopNAloneAsksForLogprobs) {
  const auto prepared = Run("text: 'a' output { top_n: 3 }");
  EXPECT_TRUE(prepared->wants_logprobs);
  EXPECT_TRUE(prepared->worker.logprobs());
  EXPECT_EQ(prepared->worker.top_n(), 3);
}

TEST_F(PrepareTest, AnotherModelIsNotFound) {
  const absl::Status status = Run("text: 'a' model: 'other'").status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound,
                               "model other is not served; mini is"));
  EXPECT_EQ(ReasonOf(status).word, "MODEL");
  EXPECT_OK(Run("text: 'a' model: 'mini'"));
}

TEST_F(PrepareTest, AModelWithoutTokenizerServesIdsAlone) {
  text_.tokenizer = nullptr;
  const auto prepared = Run("token_ids { ids: 5 }");
  ASSERT_OK(prepared);
  EXPECT_FALSE(prepared->wants_text);
  for (const auto& [fields, feature] :
       std::vector<std::pair<std::string, std::string>>{
           {"text: 'a'", "text"},
           {"token_ids { ids: 5 } output { text: true }", "output.text"},
           {"token_ids { ids: 5 } stopping { stop_strings: 'a' }",
            "stopping.stop_strings"}}) {
    const absl::Status status = Run(fields).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << fields;
    EXPECT_EQ(ReasonOf(status).metadata["feature"], feature);
  }
}

TEST_F(PrepareTest, AChatIsRenderedAndTokenized) {
  const auto prepared = RunChat("messages { role: 'user' content: 'ab' }");
  ASSERT_OK(prepared);
  // <think> is one added token, 262.
  EXPECT_THAT(prepared->worker.prompt_ids(), ElementsAre('a', 'b', 262));
  EXPECT_TRUE(prepared->starts_in_reasoning);
}

TEST_F(PrepareTest, AChatWithoutThinkingStartsInContent) {
  const auto prepared = RunChat(
      "messages { role: 'user' content: 'ab' } reasoning { enabled: false }");
  EXPECT_THAT(prepared->worker.prompt_ids(), ElementsAre('a', 'b'));
  EXPECT_FALSE(prepared->starts_in_reasoning);
}

TEST_F(PrepareTest, WhatTheTemplateRefusesIsABadField) {
  const absl::Status status =
      RunChat("messages { role: 'nobody' content: 'x' }").status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("no messages from nobody")));
  EXPECT_EQ(ReasonOf(status).metadata["field"], "messages");
}

TEST_F(PrepareTest, AModelWithoutTemplateHasNoChat) {
  text_.chat_template = nullptr;
  EXPECT_EQ(
      ReasonOf(RunChat("messages { role: 'user' content: 'x' }").status()).word,
      "FEATURE_OFF");
}

}  // namespace
}  // namespace phalanx
