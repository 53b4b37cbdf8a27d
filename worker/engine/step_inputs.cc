#include "worker/engine/step_inputs.h"

#include <algorithm>

#include "common/check.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/sequences.h"

namespace phalanx {
namespace {

int64_t WidestTable(const StepPlan& plan) {
  size_t widest = 1;
  for (const PlannedSequence& sequence : plan.sequences)
    widest = std::max(widest, sequence.block_table.size());
  return static_cast<int64_t>(widest);
}

}  // namespace

int64_t StepInputs::Bytes(const StepPlanLimits& limits) {
  const int64_t table = CeilDivide(limits.max_model_len, limits.block_tokens);
  const int64_t words = 3 * limits.max_tokens +
                        limits.max_sequences * (3 + table) + 1 +
                        limits.max_logit_rows;
  return words * ElementBytes(DType::kI32);
}

absl::StatusOr<std::unique_ptr<StepInputs>> StepInputs::Create(
    Backend& backend, const StepPlanLimits& limits) {
  const int64_t bytes = Bytes(limits);
  ASSIGN_OR_RETURN(Buffer memory,
                   backend.Allocate(bytes, MemoryComponent::kActivations,
                                    "the inputs of a step"));
  std::unique_ptr<StepInputs> inputs(
      new StepInputs(backend, std::move(memory)));
  inputs->host_.reserve(bytes / ElementBytes(DType::kI32));
  return inputs;
}

Step StepInputs::Load(const StepPlan& plan) {
  const int64_t T = plan.token_count();
  const int64_t S = static_cast<int64_t>(plan.sequences.size());
  const int64_t R = plan.logits_count();
  const int64_t M = WidestTable(plan);
  host_.assign(3 * T + (S + 1) + 2 * S + S * M + R, 0);
  CHECK(static_cast<int64_t>(host_.size()) * 4 <= memory_.bytes());

  // Host and device places of each input, in one order.
  int64_t used = 0;
  auto place = [&](Tensor shape, int32_t** host) {
    *host = host_.data() + used;
    shape.data = static_cast<int32_t*>(memory_.data()) + used;
    used += shape.elements();
    return shape;
  };
  int32_t *ids, *positions, *places, *first_row, *past, *slot, *table, *rows;
  Step step;
  step.ids = place(MakeTensor(nullptr, DType::kI32, T), &ids);
  step.positions = place(MakeTensor(nullptr, DType::kI32, T), &positions);
  step.kv_places = place(MakeTensor(nullptr, DType::kI32, T), &places);
  step.sequences.first_row =
      place(MakeTensor(nullptr, DType::kI32, S + 1), &first_row);
  step.sequences.past = place(MakeTensor(nullptr, DType::kI32, S), &past);
  step.sequences.state_slot = place(MakeTensor(nullptr, DType::kI32, S), &slot);
  step.sequences.block_table =
      place(MakeTensor(nullptr, DType::kI32, S, M), &table);
  step.logit_rows = place(MakeTensor(nullptr, DType::kI32, R), &rows);

  int64_t row = 0;
  for (int64_t s = 0; s < S; ++s) {
    const PlannedSequence& sequence = plan.sequences[s];
    past[s] = static_cast<int32_t>(sequence.past);
    slot[s] = sequence.state_slot;
    std::copy(sequence.block_table.begin(), sequence.block_table.end(),
              table + s * M);
    for (const int32_t id : sequence.token_ids) {
      const int64_t position = sequence.past + (row - first_row[s]);
      ids[row] = id;
      positions[row] = static_cast<int32_t>(position);
      places[row] = static_cast<int32_t>(
          sequence.block_table[position / kKvBlockTokens] * kKvBlockTokens +
          position % kKvBlockTokens);
      ++row;
    }
    first_row[s + 1] = static_cast<int32_t>(row);
    for (int64_t r = row - sequence.logit_rows; r < row; ++r)
      *rows++ = static_cast<int32_t>(r);
  }
  backend_.Upload(host_.data(), MakeTensor(memory_.data(), DType::kI32,
                                           static_cast<int64_t>(host_.size())));
  return step;
}

}  // namespace phalanx
