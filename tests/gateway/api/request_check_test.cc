#include "gateway/api/request_check.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

v1::GenerateRequest Generate(const std::string& fields) {
  v1::GenerateRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "text: 'x' " + fields, &request))
      << fields;
  return request;
}

v1::ChatRequest Chat(const std::string& fields) {
  v1::ChatRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "messages { role: 'user' content: 'x' } " + fields, &request))
      << fields;
  return request;
}

TEST(RequestCheck, TakesARequestWithEveryServedField) {
  EXPECT_OK(CheckRequest(Generate(
      "request_id: 'a' model: 'm' sampling { temperature: 0 top_p: 1 top_k: 5 "
      "min_p: 0.1 seed: 1 presence_penalty: -2 frequency_penalty: 2 "
      "repetition_penalty: 10 repetition_window: 0 logit_bias { key: 1 value: "
      "-100 } allowed_ids: 1 banned_ids: 2 } stopping { max_tokens: 5 "
      "min_tokens: 1 max_time_ms: 1 stop_strings: 'a' stop_ids: 5 "
      "include_stop: true ignore_eos: true } output { text: true token_ids: "
      "false logprobs: true top_n: 20 prompt_logprobs: true echo: true } n: 16 "
      "priority: PRIORITY_HIGHEST tag: 't' user: 'u' cache_salt: 's' "
      "cache_bypass: true")));
  EXPECT_OK(CheckRequest(
      Chat("tools_json: '{}' reasoning { enabled: false } "
           "template_variables_json { key: 'a' value: '1' } tag: 't' n: 2 "
           "output { echo: true } cache_salt: 's' cache_bypass: false")));
}

TEST(RequestCheck, RefusesEveryFieldOfGenerateThatIsNotServedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sampling { typical_p: 0.5 }", "sampling.typical_p"},
      {"add_special_tokens: true", "add_special_tokens"},
      {"detach_grace_ms: 1", "detach_grace_ms"},
      {"adapter: 'a'", "adapter"},
      {"json_schema: '{}'", "json_schema"},
      {"regex: 'a'", "regex"},
      {"ebnf: 'a'", "ebnf"},
  };
  for (const auto& [fields, name] : cases) {
    const absl::Status status = CheckRequest(Generate(fields));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << fields;
    EXPECT_EQ(ReasonOf(status).word, "FEATURE_OFF") << fields;
    EXPECT_EQ(ReasonOf(status).metadata["feature"], name);
  }
}

TEST(RequestCheck, RefusesEveryFieldOfChatThatIsNotServedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"reasoning { effort: 'high' }", "reasoning.effort"},
      {"reasoning { max_tokens: 1 }", "reasoning.max_tokens"},
      {"tool_choice: 'auto'", "tool_choice"},
      {"sampling { typical_p: 0.5 }", "sampling.typical_p"},
      {"adapter: 'a'", "adapter"},
      {"messages { role: 'user' parts { type: 'image' } }",
       "messages[1].parts of type image"},
  };
  for (const auto& [fields, name] : cases) {
    const absl::Status status = CheckRequest(Chat(fields));
    EXPECT_EQ(ReasonOf(status).word, "FEATURE_OFF") << fields;
    EXPECT_EQ(ReasonOf(status).metadata["feature"], name);
  }
}

TEST(RequestCheck, NamesTheFieldTheValueAndTheLimit) {
  const std::string long_id(257, 'x');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sampling { temperature: -1 }",
       "sampling.temperature is -1; must be 0..100"},
      {"sampling { temperature: 101 }",
       "sampling.temperature is 101; must be 0..100"},
      {"sampling { temperature: nan }",
       "sampling.temperature is nan; must be 0..100"},
      {"sampling { top_p: 0 }", "sampling.top_p is 0; must be in (0, 1]"},
      {"sampling { top_p: 1.5 }", "sampling.top_p is 1.5; must be in (0, 1]"},
      {"sampling { top_k: -1 }", "sampling.top_k is -1; must be >= 0"},
      {"sampling { min_p: 2 }", "sampling.min_p is 2; must be in [0, 1]"},
      {"sampling { presence_penalty: 2.5 }",
       "sampling.presence_penalty is 2.5; must be in [-2, 2]"},
      {"sampling { presence_penalty: nan }",
       "sampling.presence_penalty is nan; must be in [-2, 2]"},
      {"sampling { frequency_penalty: -2.5 }",
       "sampling.frequency_penalty is -2.5; must be in [-2, 2]"},
      {"sampling { frequency_penalty: nan }",
       "sampling.frequency_penalty is nan; must be in [-2, 2]"},
      {"sampling { repetition_penalty: 0 }",
       "sampling.repetition_penalty is 0; must be in (0, 10]"},
      {"sampling { repetition_penalty: 11 }",
       "sampling.repetition_penalty is 11; must be in (0, 10]"},
      {"sampling { repetition_penalty: nan }",
       "sampling.repetition_penalty is nan; must be in (0, 10]"},
      {"sampling { repetition_window: -1 }",
       "sampling.repetition_window is -1; must be >= 0"},
      {"sampling { logit_bias { key: 9 value: 200 } logit_bias { key: 7 value: "
       "101 } }",
       "sampling.logit_bias of 7 is 101; must be in [-100, 100]"},
      {"sampling { logit_bias { key: 7 value: nan } }",
       "sampling.logit_bias of 7 is nan; must be in [-100, 100]"},
      {"stopping { max_time_ms: 0 }",
       "stopping.max_time_ms is 0; must be >= 1"},
      {"stopping { stop_strings: '' }",
       "stopping.stop_strings has an entry of 0 bytes; must be 1..256"},
      {"stopping { stop_strings: '" + long_id + "' }",
       "stopping.stop_strings has an entry of 257 bytes; must be 1..256"},
      {"request_id: '" + long_id + "'",
       "request_id has 257 bytes; at most 256"},
      {"tag: '" + long_id + "'", "tag has 257 bytes; at most 256"},
      {"cache_salt: '" + long_id + "'",
       "cache_salt has 257 bytes; at most 256"},
      {"n: 0", "n is 0; must be 1..16"},
      {"n: 17", "n is 17; must be 1..16"},
      {"priority: 6", "priority is 6; must be 0..5"},
      {"output { top_n: 21 }", "output.top_n is 21; must be 0..20"},
      {"output { top_n: -1 }", "output.top_n is -1; must be 0..20"},
  };
  for (const auto& [fields, message] : cases) {
    v1::GenerateRequest request;
    if (fields == "priority: 6") {
      request = Generate("");
      request.set_priority(static_cast<v1::Priority>(6));
    } else {
      request = Generate(fields);
    }
    const absl::Status status = CheckRequest(request);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, message));
    EXPECT_EQ(ReasonOf(status).word, "BAD_FIELD");
    EXPECT_EQ(ReasonOf(status).metadata["field"],
              message.substr(0, message.find(' ')));
  }
}

TEST(RequestCheck, BoundsTheNumberOfStops) {
  v1::GenerateRequest request = Generate("");
  for (int i = 0; i < 17; ++i)
    request.mutable_stopping()->add_stop_strings("x");
  EXPECT_THAT(CheckRequest(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "stopping.stop_strings has 17 entries; at most 16"));
  request = Generate("");
  for (int i = 0; i < 65; ++i) request.mutable_stopping()->add_stop_ids(i);
  EXPECT_THAT(CheckRequest(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "stopping.stop_ids has 65 entries; at most 64"));
}

TEST(RequestCheck, BoundsTheNumberOfIdsInSampling) {
  v1::GenerateRequest request = Generate("");
  for (int i = 0; i < 1025; ++i)
    (*request.mutable_sampling()->mutable_logit_bias())[i] = 1;
  EXPECT_THAT(CheckRequest(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "sampling.logit_bias has 1025 entries; at most 1024"));
  request = Generate("");
  for (int i = 0; i < 65537; ++i)
    request.mutable_sampling()->add_allowed_ids(i);
  EXPECT_THAT(
      CheckRequest(request),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "sampling.allowed_ids has 65537 entries; at most 65536"));
  request = Generate("");
  for (int i = 0; i < 65537; ++i) request.mutable_sampling()->add_banned_ids(i);
  EXPECT_THAT(CheckRequest(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "sampling.banned_ids has 65537 entries; at most 65536"));
}

TEST(RequestCheck, APromptOfNoKindIsEmpty) {
  EXPECT_EQ(ReasonOf(CheckRequest(v1::GenerateRequest())).word, "PROMPT_EMPTY");
}

TEST(RequestCheck, AChatNeedsAMessage) {
  EXPECT_THAT(CheckRequest(v1::ChatRequest()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "messages is empty; must have at least one"));
}

TEST(RequestCheck, AMessageHasContentOrPartsButNotBoth) {
  EXPECT_THAT(
      CheckRequest(Chat("messages { role: 'user' content: 'a' parts { type: "
                        "'text' text: 'b' } }")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "messages[1] has both content and parts; must have one of "
               "them"));
}

}  // namespace
}  // namespace phalanx
