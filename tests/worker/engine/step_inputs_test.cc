#include "worker/engine/step_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/reference/reference_backend.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StepInputsTest : public testing::Test {
 protected:
  StepInputsTest() {
    auto inputs = StepInputs::Create(backend_, {.max_sequences = 4,
                                                .max_tokens = 100,
                                                .max_logit_rows = 4,
                                                .max_model_len = 300,
                                                .vocab_size = 50,
                                                .state_slots = 4,
                                                .kv_blocks = 20});
    EXPECT_OK(inputs);
    inputs_ = *std::move(inputs);
  }

  std::vector<int32_t> Values(Tensor t) {
    EXPECT_EQ(t.dtype, DType::kI32);
    std::vector<int32_t> values(t.elements());
    if (!values.empty()) backend_.Download(t, values.data());
    return values;
  }

  ReferenceBackend backend_;
  std::unique_ptr<StepInputs> inputs_;
};

// A prefill chunk that crosses into its second block, a decode row deep in
// another sequence, and a chunk nobody samples from.
StepPlan MixedPlan() {
  StepPlan plan;
  plan.sequences = {{.state_slot = 2,
                     .past = 62,
                     .token_ids = {10, 11, 12, 13},
                     .block_table = {7, 3},
                     .logit_rows = 1},
                    {.state_slot = 0,
                     .past = 0,
                     .token_ids = {20, 21},
                     .block_table = {5},
                     .logit_rows = 0},
                    {.state_slot = 3,
                     .past = 130,
                     .token_ids = {30},
                     .block_table = {1, 9, 4},
                     .logit_rows = 1}};
  return plan;
}

TEST_F(StepInputsTest, RowsLieInTheOrderOfThePlan) {
  const Step step = inputs_->Load(MixedPlan());
  EXPECT_EQ(step.tokens(), 7);
  EXPECT_THAT(Values(step.ids), ElementsAre(10, 11, 12, 13, 20, 21, 30));
  EXPECT_THAT(Values(step.sequences.first_row), ElementsAre(0, 4, 6, 7));
}

TEST_F(StepInputsTest, PositionsCountFromThePast) {
  const Step step = inputs_->Load(MixedPlan());
  EXPECT_THAT(Values(step.positions), ElementsAre(62, 63, 64, 65, 0, 1, 130));
  EXPECT_THAT(Values(step.sequences.past), ElementsAre(62, 0, 130));
}

TEST_F(StepInputsTest, PlacesFollowTheBlockTable) {
  const Step step = inputs_->Load(MixedPlan());
  EXPECT_THAT(Values(step.kv_places),
              ElementsAre(7 * 64 + 62, 7 * 64 + 63, 3 * 64, 3 * 64 + 1, 5 * 64,
                          5 * 64 + 1, 4 * 64 + 2));
}

TEST_F(StepInputsTest, TablesArePaddedToTheWidest) {
  const Step step = inputs_->Load(MixedPlan());
  EXPECT_EQ(step.sequences.count(), 3);
  EXPECT_EQ(step.sequences.block_table.dims[1], 3);
  EXPECT_THAT(Values(step.sequences.block_table),
              ElementsAre(7, 3, 0, 5, 0, 0, 1, 9, 4));
}

TEST_F(StepInputsTest, SlotsAreThePlans) {
  const Step step = inputs_->Load(MixedPlan());
  EXPECT_THAT(Values(step.sequences.state_slot), ElementsAre(2, 0, 3));
}

TEST_F(StepInputsTest, LogitRowsAreTheLastOfThoseThatWantThem) {
  const Step step = inputs_->Load(MixedPlan());
  EXPECT_THAT(Values(step.logit_rows), ElementsAre(3, 6));
}

TEST_F(StepInputsTest, NobodyNeedsToWantLogits) {
  StepPlan plan = MixedPlan();
  for (PlannedSequence& sequence : plan.sequences) sequence.logit_rows = 0;
  const Step step = inputs_->Load(plan);
  EXPECT_THAT(Values(step.logit_rows), IsEmpty());
  EXPECT_EQ(step.tokens(), 7);
}

TEST_F(StepInputsTest, ASmallerPlanKeepsNothingOfALargerOne) {
  inputs_->Load(MixedPlan());
  StepPlan plan;
  plan.sequences = {{.state_slot = 1,
                     .past = 0,
                     .token_ids = {40},
                     .block_table = {6},
                     .logit_rows = 1}};
  const Step step = inputs_->Load(plan);
  EXPECT_THAT(Values(step.ids), ElementsAre(40));
  EXPECT_THAT(Values(step.positions), ElementsAre(0));
  EXPECT_THAT(Values(step.kv_places), ElementsAre(6 * 64));
  EXPECT_THAT(Values(step.sequences.block_table), ElementsAre(6));
  EXPECT_THAT(Values(step.logit_rows), ElementsAre(0));
}

TEST_F(StepInputsTest, TheLargestPlanFits) {
  StepPlan plan;
  for (int i = 0; i < 4; ++i) {
    PlannedSequence sequence;
    sequence.state_slot = i;
    sequence.past = 275;
    sequence.token_ids.assign(25, i);
    sequence.block_table.assign(5, i);
    sequence.logit_rows = 1;
    plan.sequences.push_back(sequence);
  }
  const Step step = inputs_->Load(plan);
  EXPECT_EQ(step.tokens(), 100);
  EXPECT_THAT(Values(step.logit_rows), ElementsAre(24, 49, 74, 99));
}

TEST(StepInputs, SaysWhatDidNotFit) {
  ReferenceBackend backend({.memory_limit_bytes = 100});
  EXPECT_THAT(StepInputs::Create(backend, {.max_sequences = 4,
                                           .max_tokens = 100,
                                           .max_logit_rows = 4,
                                           .max_model_len = 300,
                                           .vocab_size = 50,
                                           .state_slots = 4,
                                           .kv_blocks = 20}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::HasSubstr("the inputs of a step")));
}

}  // namespace
}  // namespace phalanx
