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

}  // namespace
}  // namespace phalanx
