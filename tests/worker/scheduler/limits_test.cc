#include "worker/scheduler/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::_;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr SchedulerLimits kLimits = {.max_running = 4,
                                     .max_waiting = 4,
                                     .max_model_len = 200,
                                     .prefill_chunk = 32,
                                     .step_tokens = 64,
                                     .kv_blocks = 3,
                                     .state_slots = 4,
                                     .vocab_size = 100,
                                     .block_tokens = 64};

Request Good() {
  Request request;
  request.id = "r";
  request.prompt_ids = {1, 2, 3};
  request.max_tokens = 5;
  return request;
}

TEST(ValidateRequest, AcceptsAnOrdinaryRequest) {
  EXPECT_OK(ValidateRequest(Good(), kLimits));
}

TEST(ValidateRequest, RefusesAnEmptyPrompt) {
  Request request = Good();
  request.prompt_ids.clear();

  const absl::Status status = ValidateRequest(request, kLimits);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_EQ(ReasonOf(status).word, "PROMPT_EMPTY");
}

TEST(ValidateRequest, RefusesAPromptThatLeavesNoRoomForAToken) {
  Request request = Good();
  request.prompt_ids.assign(200, 1);

  const absl::Status status = ValidateRequest(request, kLimits);

  EXPECT_EQ(status.message(), "prompt_ids has 200 tokens; must be 1..199");
  EXPECT_EQ(ReasonOf(status).word, "PROMPT_TOO_LONG");
  EXPECT_THAT(
      ReasonOf(status).metadata,
      UnorderedElementsAre(Pair("limit", "199"), Pair("actual", "200")));
}

TEST(ValidateRequest, AcceptsAPromptThatLeavesRoomForOneToken) {
  SchedulerLimits limits = kLimits;
  limits.kv_blocks = 4;
  Request request = Good();
  request.prompt_ids.assign(199, 1);

  EXPECT_OK(ValidateRequest(request, limits));
}

TEST(ValidateRequest, RefusesWhatNeedsMoreBlocksThanThereAre) {
  Request request = Good();
  request.max_tokens = 190;

  const absl::Status status = ValidateRequest(request, kLimits);

  EXPECT_EQ(ReasonOf(status).word, "NEVER_FITS");
  EXPECT_THAT(ReasonOf(status).metadata,
              UnorderedElementsAre(Pair("needs", "4"), Pair("capacity", "3")));
}

TEST(ValidateRequest, AcceptsNoTokensWhereThePromptIsScored) {
  Request request = Good();
  request.max_tokens = 0;
  request.prompt_logprobs = true;

  EXPECT_OK(ValidateRequest(request, kLimits));
}

TEST(ValidateRequest, AcceptsEveryFieldAtItsBound) {
  Request request = Good();
  request.min_tokens = request.max_tokens;
  request.sampling.presence = -2;
  request.sampling.frequency = 2;
  request.sampling.repetition = 10;
  request.sampling.logit_bias = {{0, -100.0f}, {99, 100.0f}};
  request.sampling.allowed_ids = {98, 99};
  request.sampling.banned_ids = {98};
  request.anchors = {1, 3};
  request.cache.salt.assign(256, 'x');
  request.key.assign(256, 'x');
  request.timeout_seconds = 0;

  EXPECT_OK(ValidateRequest(request, kLimits));
}

TEST(ValidateRequest, CutsMaxTokensToTheContext) {
  SchedulerLimits limits = kLimits;
  limits.kv_blocks = 4;
  Request request = Good();
  request.max_tokens = 200;

  EXPECT_OK(ValidateRequest(request, limits));
  EXPECT_EQ(MaxTotalTokens(request, limits), 200);
}

struct BadFieldCase {
  std::string name;
  std::string field;
  std::string message;
  std::function<void(Request&)> spoil;
};

class ValidateRequestField : public testing::TestWithParam<BadFieldCase> {};

TEST_P(ValidateRequestField, IsNamedWithItsValueAndLimit) {
  Request request = Good();
  GetParam().spoil(request);

  const absl::Status status = ValidateRequest(request, kLimits);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr(GetParam().message)));
  EXPECT_EQ(ReasonOf(status).word, "BAD_FIELD");
  EXPECT_EQ(ReasonOf(status).metadata["field"], GetParam().field);
}

const float kNan = std::nanf("");
const float kInfinity = std::numeric_limits<float>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Fields, ValidateRequestField,
    testing::ValuesIn(std::vector<BadFieldCase>{
        {"EmptyId", "request_id", "request_id is 0 bytes long; must be 1..256",
         [](Request& r) { r.id.clear(); }},
        {"LongId", "request_id", "request_id is 257 bytes long",
         [](Request& r) { r.id.assign(257, 'x'); }},
        {"NoTokens", "max_tokens", "max_tokens is 0; must be 1..200",
         [](Request& r) { r.max_tokens = 0; }},
        {"HugeMaxTokens", "max_tokens", "must be 1..200",
         [](Request& r) {
           r.max_tokens = std::numeric_limits<int64_t>::max();
         }},
        {"NegativeId", "prompt_ids", "prompt_ids[1] is -1; must be 0..99",
         [](Request& r) { r.prompt_ids[1] = -1; }},
        {"IdBeyond", "prompt_ids", "prompt_ids[2] is 100; must be 0..99",
         [](Request& r) { r.prompt_ids[2] = 100; }},
        {"EmittedBeyond", "emitted_ids", "emitted_ids[0] is 100",
         [](Request& r) { r.emitted_ids = {100}; }},
        {"TooManyEmitted", "emitted_ids",
         "emitted_ids is 6 tokens long; must be 0..5",
         [](Request& r) { r.emitted_ids.assign(6, 1); }},
        {"StopBeyond", "stop_ids", "stop_ids[0] is 100; must be 0..99",
         [](Request& r) { r.stop_ids = {100}; }},
        {"ManyStops", "stop_ids", "stop_ids is 257 ids long; must be 0..256",
         [](Request& r) { r.stop_ids.assign(257, 1); }},
        {"Cold", "temperature", "temperature is -1",
         [](Request& r) { r.sampling.temperature = -1; }},
        {"TemperatureNan", "temperature", "must be finite and at least 0",
         [](Request& r) { r.sampling.temperature = kNan; }},
        {"TemperatureInf", "temperature", "temperature is inf",
         [](Request& r) { r.sampling.temperature = kInfinity; }},
        {"TopPZero", "top_p", "top_p is 0; must be above 0 and at most 1",
         [](Request& r) { r.sampling.top_p = 0; }},
        {"TopPAboveOne", "top_p", "top_p is 1.5",
         [](Request& r) { r.sampling.top_p = 1.5f; }},
        {"TopPNan", "top_p", "above 0",
         [](Request& r) { r.sampling.top_p = kNan; }},
        {"TopK", "top_k", "top_k is -1; must be at least 0",
         [](Request& r) { r.sampling.top_k = -1; }},
        {"MinPNan", "min_p", "must be 0..1",
         [](Request& r) { r.sampling.min_p = kNan; }},
        {"MinP", "min_p", "min_p is 2; must be 0..1",
         [](Request& r) { r.sampling.min_p = 2; }},
        {"Choice", "choice_index", "choice_index is -1",
         [](Request& r) { r.sampling.choice_index = -1; }},
        {"TopN", "top_n", "top_n is 21; must be 0..20",
         [](Request& r) { r.top_n = 21; }},
        {"Priority", "priority", "priority is 6; must be 0..5",
         [](Request& r) { r.priority = 6; }},
        {"MinTokens", "min_tokens", "min_tokens is 6; must be 0..5",
         [](Request& r) { r.min_tokens = 6; }},
        {"NegativeMinTokens", "min_tokens", "min_tokens is -1; must be 0..5",
         [](Request& r) { r.min_tokens = -1; }},
        {"Presence", "presence_penalty",
         "presence_penalty is 2.5; must be -2..2",
         [](Request& r) { r.sampling.presence = 2.5f; }},
        {"PresenceNan", "presence_penalty", "must be -2..2",
         [](Request& r) { r.sampling.presence = kNan; }},
        {"Frequency", "frequency_penalty",
         "frequency_penalty is -3; must be -2..2",
         [](Request& r) { r.sampling.frequency = -3; }},
        {"FrequencyNan", "frequency_penalty", "must be -2..2",
         [](Request& r) { r.sampling.frequency = kNan; }},
        {"RepetitionZero", "repetition_penalty",
         "repetition_penalty is 0; must be above 0 and at most 10",
         [](Request& r) { r.sampling.repetition = 0; }},
        {"Repetition", "repetition_penalty", "repetition_penalty is 11",
         [](Request& r) { r.sampling.repetition = 11; }},
        {"RepetitionNan", "repetition_penalty", "at most 10",
         [](Request& r) { r.sampling.repetition = kNan; }},
        {"Window", "repetition_window",
         "repetition_window is -1; must be at least 0",
         [](Request& r) { r.sampling.repetition_window = -1; }},
        {"Bias", "logit_bias", "logit_bias is 101 for id 7; must be -100..100",
         [](Request& r) {
           r.sampling.logit_bias = {{7, 101.0f}};
         }},
        {"BiasNan", "logit_bias", "for id 7; must be -100..100",
         [](Request& r) {
           r.sampling.logit_bias = {{7, kNan}};
         }},
        {"BiasBeyond", "logit_bias", "logit_bias[0] is 100; must be 0..99",
         [](Request& r) {
           r.sampling.logit_bias = {{100, 1.0f}};
         }},
        {"BiasTwice", "logit_bias",
         "logit_bias[1] is 7; must be above the one before, 7",
         [](Request& r) {
           r.sampling.logit_bias = {{7, 1.0f}, {7, 2.0f}};
         }},
        {"ManyBiases", "logit_bias", "logit_bias is 1025 ids long",
         [](Request& r) { r.sampling.logit_bias.resize(1025); }},
        {"AllowedBeyond", "allowed_ids", "allowed_ids[1] is 100; must be 0..99",
         [](Request& r) {
           r.sampling.allowed_ids = {5, 100};
         }},
        {"AllowedOrder", "allowed_ids",
         "allowed_ids[1] is 4; must be above the one before, 5",
         [](Request& r) {
           r.sampling.allowed_ids = {5, 4};
         }},
        {"ManyAllowed", "allowed_ids",
         "allowed_ids is 65537 ids long; must be 0..65536",
         [](Request& r) { r.sampling.allowed_ids.resize(65537); }},
        {"BannedBeyond", "banned_ids", "banned_ids[0] is -1; must be 0..99",
         [](Request& r) { r.sampling.banned_ids = {-1}; }},
        {"AllBanned", "allowed_ids", "such that no id is left to draw",
         [](Request& r) {
           r.sampling.allowed_ids = {4, 5};
           r.sampling.banned_ids = {4, 5, 6};
         }},
        {"AllHeldBack", "allowed_ids", "such that no id is left to draw",
         [](Request& r) {
           r.sampling.allowed_ids = {4};
           r.stop_ids = {4};
           r.min_tokens = 1;
         }},
        {"WholeVocabularyBanned", "banned_ids", "such that no id is left",
         [](Request& r) {
           for (int32_t id = 0; id < 100; ++id)
             r.sampling.banned_ids.push_back(id);
         }},
        {"AnchorZero", "anchors", "anchors is 0; must be 1..3",
         [](Request& r) {
           r.anchors = {0, 2};
         }},
        {"AnchorBeyond", "anchors", "anchors is 4; must be 1..3",
         [](Request& r) {
           r.anchors = {2, 4};
         }},
        {"AnchorOrder", "anchors",
         "anchors[1] is 2; must be above the one before, 2",
         [](Request& r) {
           r.anchors = {2, 2};
         }},
        {"ManyAnchors", "anchors", "anchors is 257 long; must be 0..256",
         [](Request& r) { r.anchors.assign(257, 1); }},
        {"Salt", "cache_salt", "cache_salt is 257 bytes long; must be 0..256",
         [](Request& r) { r.cache.salt.assign(257, 'x'); }},
        {"Key", "key", "key is 257 bytes long; must be 0..256",
         [](Request& r) { r.key.assign(257, 'x'); }},
        {"Timeout", "timeout_seconds",
         "timeout_seconds is -1; must be at least 0",
         [](Request& r) { r.timeout_seconds = -1; }},
        {"TimeoutNan", "timeout_seconds", "must be at least 0",
         [](Request& r) { r.timeout_seconds = kNan; }},
        {"MaxTimeNan", "max_time_seconds", "must be at least 0",
         [](Request& r) { r.max_time_seconds = kNan; }},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ValidateLimits, AcceptsOrdinaryLimits) {
  EXPECT_OK(ValidateLimits(kLimits));
}

TEST(ValidateLimits, NamesTheFieldThatIsZero) {
  SchedulerLimits limits = kLimits;
  limits.prefill_chunk = 0;

  EXPECT_THAT(ValidateLimits(limits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("prefill_chunk is 0; must be 1..")));
}

TEST(ValidateLimits, WantsARowForEachRunningSequence) {
  SchedulerLimits limits = kLimits;
  limits.step_tokens = 3;

  EXPECT_THAT(ValidateLimits(limits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step_tokens is 3; must be at least max_running, 4"));
}

TEST(ValidateLimits, WantsAStateSlotForEachRunningSequence) {
  SchedulerLimits limits = kLimits;
  limits.state_slots = 3;

  EXPECT_THAT(ValidateLimits(limits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "state_slots is 3; must be at least max_running, 4"));
}

TEST(ValidateLimits, WantsRowsOfLogitsForEachRunningSequence) {
  SchedulerLimits limits = kLimits;
  limits.logit_rows = 3;

  EXPECT_THAT(ValidateLimits(limits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("logit_rows is 3; must be 0 or 4..")));
}

struct BadLimitCase {
  std::string message;
  double SchedulerLimits::*field;
  double value;
};

class ValidateLimitsField : public testing::TestWithParam<BadLimitCase> {};

TEST_P(ValidateLimitsField, IsNamedWithItsValueAndLimit) {
  SchedulerLimits limits = kLimits;
  limits.*GetParam().field = GetParam().value;

  EXPECT_THAT(ValidateLimits(limits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, ValidateLimitsField,
    testing::ValuesIn(std::vector<BadLimitCase>{
        {"ageing_seconds is 0; must be finite and above 0",
         &SchedulerLimits::ageing_seconds, 0},
        {"ageing_seconds is inf", &SchedulerLimits::ageing_seconds, kInfinity},
        {"must be finite and above 0", &SchedulerLimits::ageing_seconds, kNan},
        {"max_wait_seconds is 0; must be above 0",
         &SchedulerLimits::max_wait_seconds, 0},
        {"must be above 0", &SchedulerLimits::max_wait_seconds, kNan},
        {"park_seconds is -1; must be at least 0",
         &SchedulerLimits::park_seconds, -1},
        {"must be at least 0", &SchedulerLimits::park_seconds, kNan},
        {"slow_reader_seconds is 0; must be above 0",
         &SchedulerLimits::slow_reader_seconds, 0},
        {"must be above 0", &SchedulerLimits::slow_reader_seconds, kNan},
    }));

}  // namespace
}  // namespace phalanx
