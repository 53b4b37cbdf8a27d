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
                                    .max_logit_rows = 4,
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
          .logit_rows = 1};
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
                         .logit_rows = 0}},
          .block_copies = {{.from = 3, .to = 5}},
          .state_restores = {{.from = 4, .to = 7}, {.from = 7, .to = 0}},
          .state_saves = {{.from = 0, .to = 1}}};
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
  bytes[4] = 1;

  EXPECT_THAT(Decode(bytes, kLimits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: version is 1; must be 2..2"));
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

TEST(StepPlan, IsRefusedWithMoreRowsOfLogitsThanTheLimitOverAllSequences) {
  StepPlan plan = Example();
  plan.sequences[0].logit_rows = 1;
  plan.sequences[1].token_ids.assign(5, 1);
  plan.sequences[1].logit_rows = 4;

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: logit_rows is 4; must be 0..3"));
}

TEST(StepPlan, IsRefusedWithLogitsOfMoreRowsThanItHas) {
  StepPlan plan = Example();
  plan.sequences[0].logit_rows = 2;

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: logit_rows is 2; must be 0..1"));
}

TEST(StepPlan, IsRefusedWithACopyOutsideThePool) {
  StepPlan blocks = Example();
  blocks.block_copies[0].to = 50;
  StepPlan slots = Example();
  slots.state_saves[0].from = 8;

  EXPECT_THAT(DecodeError(blocks),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: copied block is 50; must be 0..49"));
  EXPECT_THAT(DecodeError(slots),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: saved slot is 8; must be 0..7"));
}

TEST(StepPlan, IsRefusedWithMoreCopiesThanSequencesMayBe) {
  StepPlan plan = Example();
  plan.state_restores.assign(5, {.from = 1, .to = 2});

  EXPECT_THAT(DecodeError(plan),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "step plan: state restores is 5; must be 0..4"));
}

TEST(StepPlan, IsNeverLargerThanItsLimitsSay) {
  StepPlan plan = {.epoch = 1, .step = 1, .sequences = {}};
  for (int32_t slot = 0; slot < 4; ++slot)
    plan.sequences.push_back({.state_slot = slot,
                              .past = 296,
                              .token_ids = std::vector<int32_t>(4, 1),
                              .block_table = std::vector<int32_t>(5, slot),
                              .logit_rows = 1});
  plan.block_copies.assign(4, {.from = 1, .to = 2});
  plan.state_restores = plan.state_saves = plan.block_copies;

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
