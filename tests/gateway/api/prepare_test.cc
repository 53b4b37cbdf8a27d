#include "gateway/api/prepare.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
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
using testing::Pair;

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
  for (const char* value : {"-1", "101", "1000000000"}) {
    const absl::Status status =
        Run(std::string("text: 'abc' stopping { max_tokens: ") + value + " }")
            .status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 std::string("stopping.max_tokens is ") +
                                     value + "; must be 1..100"));
    EXPECT_EQ(ReasonOf(status).word, "BAD_FIELD");
  }
}

TEST_F(PrepareTest, NoTokensAreWantedOnlyWhereThePromptIs) {
  EXPECT_THAT(Run("text: 'abc' stopping { max_tokens: 0 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "stopping.max_tokens is 0; must be 1..100, or 0 with "
                       "output.prompt_logprobs or output.echo"));
  for (const char* output : {"prompt_logprobs: true", "echo: true"}) {
    const auto prepared =
        Run(std::string("text: 'abc' stopping { max_tokens: 0 } output { ") +
            output + " }");
    ASSERT_OK(prepared);
    EXPECT_EQ(prepared->worker.max_tokens(), 0);
    EXPECT_TRUE(prepared->worker.prompt_logprobs());
  }
}

TEST_F(PrepareTest, MinTokensAreNoMoreThanMaxTokensAndTheContext) {
  EXPECT_THAT(Run("text: 'abc' stopping { max_tokens: 5 min_tokens: 6 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "stopping.min_tokens is 6; must be 0..5, "
                       "stopping.max_tokens"));
  EXPECT_THAT(Run("text: 'abc' stopping { min_tokens: 101 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "stopping.min_tokens is 101; must be 0..100"));
  EXPECT_THAT(Run("text: 'abc' stopping { min_tokens: -1 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "stopping.min_tokens is -1; must be 0..100"));
  EXPECT_EQ(Run("text: 'abc' stopping { min_tokens: 7 }")->worker.min_tokens(),
            7);
}

TEST_F(PrepareTest, MinTokensAreCutWithMaxTokens) {
  EXPECT_EQ(Run("text: 'abc' stopping { max_tokens: 100 min_tokens: 99 }")
                ->worker.min_tokens(),
            97);
}

TEST_F(PrepareTest, TheTimeLimitIsTheCalls) {
  EXPECT_EQ(Run("text: 'a' stopping { max_time_ms: 9 }")->max_time_ms, 9);
  EXPECT_EQ(Run("text: 'a'")->max_time_ms, std::nullopt);
}

TEST_F(PrepareTest, WhatChangesLogitsGoesToTheWorkerAndIsEchoed) {
  const auto prepared =
      Run("text: 'a' sampling { presence_penalty: 0.5 frequency_penalty: -0.5 "
          "repetition_penalty: 1.5 repetition_window: 8 logit_bias { key: 7 "
          "value: 2 } allowed_ids: 5 allowed_ids: 6 banned_ids: 6 }");
  ASSERT_OK(prepared);
  const v1::WorkerGenerateRequest& worker = prepared->worker;
  const v1::Sampling& echoed = prepared->accepted.sampling();
  EXPECT_EQ(worker.presence_penalty(), 0.5f);
  EXPECT_EQ(echoed.presence_penalty(), 0.5f);
  EXPECT_EQ(worker.frequency_penalty(), -0.5f);
  EXPECT_EQ(echoed.frequency_penalty(), -0.5f);
  EXPECT_EQ(worker.repetition_penalty(), 1.5f);
  EXPECT_EQ(echoed.repetition_penalty(), 1.5f);
  EXPECT_EQ(worker.repetition_window(), 8);
  EXPECT_EQ(echoed.repetition_window(), 8);
  EXPECT_THAT(worker.logit_bias(), ElementsAre(Pair(7, 2)));
  EXPECT_THAT(echoed.logit_bias(), ElementsAre(Pair(7, 2)));
  EXPECT_THAT(worker.allowed_ids(), ElementsAre(5, 6));
  EXPECT_THAT(echoed.allowed_ids(), ElementsAre(5, 6));
  EXPECT_THAT(worker.banned_ids(), ElementsAre(6));
  EXPECT_THAT(echoed.banned_ids(), ElementsAre(6));
}

TEST_F(PrepareTest, UnsetPenaltiesAreEchoedAsOff) {
  const auto prepared = Run("text: 'a'");
  const v1::Sampling& echoed = prepared->accepted.sampling();
  EXPECT_TRUE(echoed.has_presence_penalty());
  EXPECT_EQ(echoed.presence_penalty(), 0);
  EXPECT_TRUE(echoed.has_frequency_penalty());
  EXPECT_EQ(echoed.frequency_penalty(), 0);
  EXPECT_EQ(echoed.repetition_penalty(), 1);
  EXPECT_EQ(prepared->worker.repetition_penalty(), 1);
  EXPECT_TRUE(echoed.has_repetition_window());
  EXPECT_EQ(echoed.repetition_window(), 0);
}

TEST_F(PrepareTest, SomethingMustBeLeftToDraw) {
  const absl::Status none =
      Run("text: 'a' sampling { allowed_ids: 5 banned_ids: 5 }").status();
  EXPECT_THAT(none, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("sampling.allowed_ids leaves 0 ids")));
  EXPECT_EQ(ReasonOf(none).metadata["field"], "sampling.allowed_ids");
  // 261 is the model's stop id.
  EXPECT_THAT(Run("text: 'a' sampling { allowed_ids: 261 } stopping { "
                  "min_tokens: 1 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sampling.allowed_ids leaves 0 ids")));
  EXPECT_OK(Run("text: 'a' sampling { allowed_ids: 261 }"));

  v1::GenerateRequest request = Request("text: 'a'");
  for (int id = 0; id < 299; ++id)
    request.mutable_sampling()->add_banned_ids(id);
  EXPECT_OK(Prepare(request, text_, leader_));
  request.mutable_sampling()->add_banned_ids(299);
  EXPECT_THAT(Prepare(request, text_, leader_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sampling.banned_ids leaves 0 ids")));
}

TEST_F(PrepareTest, ChoicesShareAPrefillThatEndsBeforeTheLastToken) {
  const auto prepared = Run("text: 'abc' n: 3");
  EXPECT_EQ(prepared->n, 3);
  EXPECT_THAT(prepared->worker.anchors(), ElementsAre(2));
  EXPECT_EQ(Run("text: 'abc'")->n, 1);
  EXPECT_THAT(Run("text: 'abc'")->worker.anchors(), ElementsAre());
}

TEST_F(PrepareTest, TheWorkerKnowsAUserByADigestAlone) {
  const std::string key = Run("text: 'a' user: 'me'")->worker.key();
  EXPECT_EQ(key, "2744ccd10c7533bd736ad890f9dd5cab");  // Of its SHA-256.
  EXPECT_NE(Run("text: 'a' user: 'you'")->worker.key(), key);
  EXPECT_EQ(Run("text: 'a'")->worker.key(), "");
}

TEST_F(PrepareTest, WhatItMayShareGoesToTheWorker) {
  const auto prepared =
      Run("text: 'a' cache_salt: 's' cache_bypass: true priority: "
          "PRIORITY_HIGH");
  EXPECT_EQ(prepared->worker.cache_salt(), "s");
  EXPECT_TRUE(prepared->worker.cache_bypass());
  EXPECT_EQ(prepared->worker.priority(), v1::PRIORITY_HIGH);
}

TEST_F(PrepareTest, AnEchoIsThePromptAsItCame) {
  // Composed by the tokenizer, not by the echo.
  const auto prepared = Run("text: 'e\xcc\x81' output { echo: true }");
  ASSERT_OK(prepared);
  EXPECT_TRUE(prepared->echo);
  EXPECT_EQ(prepared->prompt_text, "e\xcc\x81");
  EXPECT_EQ(
      Run("token_ids { ids: 97 ids: 261 } output { echo: true }")->prompt_text,
      "a<|end|>");
  EXPECT_EQ(Run("text: 'a' output { echo: true text: false }")->prompt_text,
            "");
  EXPECT_EQ(RunChat("messages { role: 'user' content: 'ab' } output { echo: "
                    "true }")
                ->prompt_text,
            "ab<think>");
}

TEST_F(PrepareTest, PromptLogprobsAreAskedOfTheWorker) {
  const auto prepared = Run("text: 'a' output { prompt_logprobs: true }");
  EXPECT_TRUE(prepared->prompt_logprobs);
  EXPECT_TRUE(prepared->worker.prompt_logprobs());
  EXPECT_FALSE(
      Run("text: 'a' output { echo: true }")->worker.prompt_logprobs());
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
  EXPECT_THAT(Run("text: 'a' sampling { allowed_ids: 300 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "sampling.allowed_ids holds 300; must be 0..299"));
  EXPECT_THAT(Run("text: 'a' sampling { banned_ids: -1 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "sampling.banned_ids holds -1; must be 0..299"));
  for (const char* id : {"-1", "300"})
    EXPECT_THAT(Run(std::string("text: 'a' sampling { logit_bias { key: 5 "
                                "value: 1 } logit_bias { key: ") +
                    id + " value: 1 } }"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         std::string("sampling.logit_bias holds ") + id +
                             "; must be 0..299"));
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
