#include "worker/scheduler/step_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr StepPlanLimits kLimits = {.max_sequences = 4,
                                    .max_tokens = 16,
                                    .max_model_len = 300,
                                    .vocab_size = 1000,
                                    .state_slots = 8,
                                    .kv_blocks = 50,
                                    .block_tokens = 64};

PlannedSequence Decoding() {
  return {.state_slot = 7,
          .past = 64,
          .token_ids = {999},
          .block_table = {49, 0},
          .wants_logits = true};
}

StepPlan Example() {
  return {.kind = StepKind::kRun,
          .epoch = 0xfedcba9876543210,
          .step = 12345678901,
          .sequences = {Decoding(),
                        {.state_slot = 0,
                         .past = 0,
                         .token_ids = {1, 2, 3},
                         .block_table = {5},
                         .wants_logits = false}}};
}

absl::Status DecodeError(const StepPlan& plan) {
  return Decode(Encode(plan), kLimits).status();
}

TEST(StepPlan, CountsRowsAndLogits) {
  EXPECT_EQ(Example().token_count(), 4);
  EXPECT_EQ(Example().logits_count(), 1);
}

TEST(StepPlan, SurvivesEncodingAndDecoding) {
  const absl::StatusOr<StepPlan> plan = Decode(Encode(Example()), kLimits);

  ASSERT_OK(plan);
  EXPECT_EQ(*plan, Example());
}

TEST(StepPlan, SurvivesAsAStop) {
  const StepPlan stop = {
      .kind = StepKind::kStop, .epoch = 3, .step = 0, .sequences = {}};

  const absl::StatusOr<StepPlan> plan = Decode(Encode(stop), kLimits);

  ASSERT_OK(plan);
  EXPECT_EQ(*plan, stop);
}

TEST(StepPlan, IsRefusedAtEveryShorterLength) {
  const std::string bytes = Encode(Example());
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(Decode(bytes.substr(0, size), kLimits).ok()) << size;
}

TEST(StepPlan, IsRefusedWithBytesBehindIt) {
  EXPECT_THAT(Decode(Encode(Example()) + "x", kLimits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: 1 bytes follow its end"));
}

TEST(StepPlan, IsRefusedInAnotherVersion) {
  std::string bytes = Encode(Example());
  bytes[4] = 2;

  EXPECT_THAT(Decode(bytes, kLimits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: version is 2; must be 1..1"));
}

TEST(StepPlan, IsRefusedWithoutItsMagic) {
  std::string bytes = Encode(Example());
  bytes[0] ^= 1;

  EXPECT_FALSE(Decode(bytes, kLimits).ok());
}

TEST(StepPlan, IsRefusedWhenARunHasNoSequence) {
  StepPlan plan = Example();
  plan.sequences.clear();

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: sequences is 0; must be 1..4"));
}

TEST(StepPlan, IsRefusedWhenAStopHasSequences) {
  StepPlan plan = Example();
  plan.kind = StepKind::kStop;

  EXPECT_FALSE(DecodeError(plan).ok());
}

TEST(StepPlan, IsRefusedWhenTwoSequencesShareASlot) {
  StepPlan plan = Example();
  plan.sequences[1].state_slot = 7;

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: state_slot 7 belongs to two sequences"));
}

TEST(StepPlan, IsRefusedWithMoreRowsThanTheLimitOverAllSequences) {
  StepPlan plan = Example();
  plan.sequences[1].token_ids.assign(16, 1);

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: rows is 16; must be 1..15"));
}

TEST(StepPlan, IsRefusedWithASequenceOfNoRows) {
  StepPlan plan = Example();
  plan.sequences[0].token_ids.clear();

  EXPECT_THAT(DecodeError(plan), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("rows is 0")));
}

TEST(StepPlan, IsRefusedWithABlockTableOfAnotherLength) {
  StepPlan plan = Example();
  plan.sequences[0].block_table.push_back(1);

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: blocks is 3; must be 2..2"));
}

TEST(StepPlan, IsRefusedBeyondTheContext) {
  StepPlan plan = Example();
  plan.sequences[0].past = 300;

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: past is 300; must be 0..299"));
}

TEST(StepPlan, IsRefusedWithATokenOutsideTheVocabulary) {
  StepPlan plan = Example();
  plan.sequences[1].token_ids[2] = 1000;

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: token id is 1000; must be 0..999"));
}

TEST(StepPlan, IsRefusedWithABlockOutsideThePool) {
  StepPlan plan = Example();
  plan.sequences[0].block_table[0] = -1;

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: block is -1; must be 0..49"));
}

TEST(StepPlan, IsRefusedWithASlotOutsideThePool) {
  StepPlan plan = Example();
  plan.sequences[0].state_slot = 8;

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: state_slot is 8; must be 0..7"));
}

TEST(StepPlan, IsNeverLargerThanItsLimitsSay) {
  StepPlan plan = {.epoch = 1, .step = 1, .sequences = {}};
  for (int32_t slot = 0; slot < 4; ++slot)
    plan.sequences.push_back({.state_slot = slot,
                              .past = 296,
                              .token_ids = std::vector<int32_t>(4, 1),
                              .block_table = std::vector<int32_t>(5, slot),
                              .wants_logits = true});

  ASSERT_OK(Decode(Encode(plan), kLimits));
  EXPECT_EQ(static_cast<int64_t>(Encode(plan).size()),
            MaxEncodedBytes(kLimits));
}

// What is accepted after damage must still be a plan, and the same bytes.
TEST(StepPlan, DecodesToItselfOrIsRefusedWhateverTheDamage) {
  std::mt19937 random(11);
  const std::string good = Encode(Example());
  for (int round = 0; round < 50'000; ++round) {
    std::string bytes = good;
    for (uint32_t i = 0; i <= random() % 4; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(
          random() % 2 ? random() : (random() % 2 ? 0xff : 0));
    if (random() % 8 == 0) bytes.resize(random() % (2 * bytes.size()));

    const absl::StatusOr<StepPlan> plan = Decode(bytes, kLimits);

    if (plan.ok()) {
      ASSERT_EQ(Encode(*plan), bytes);
    }
  }
}

TEST(StepPlan, RefusesNoiseOfAnyLength) {
  std::mt19937 random(12);
  for (int round = 0; round < 10'000; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    ASSERT_FALSE(Decode(bytes, kLimits).ok());
  }
}

}  // namespace
}  // namespace phalanx
