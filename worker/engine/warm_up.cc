#include "worker/engine/warm_up.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/reason.h"
#include "common/status.h"
#include "common/units.h"

namespace phalanx {

namespace {

// One token behind what `prefill` left, by another sequence that begins with
// it, where there is room for one: its state and last block are copies.
StepPlan DecodePlan(const PlannedSequence& prefill,
                    const StepPlanLimits& limits, uint64_t epoch) {
  StepPlan plan = {.kind = StepKind::kWarmUp,
                   .epoch = epoch,
                   .step = 2,
                   .sequences = {prefill}};
  PlannedSequence& decode = plan.sequences[0];
  decode.past = static_cast<int64_t>(prefill.token_ids.size());
  decode.token_ids = {0};
  const int64_t blocks = CeilDivide(decode.past + 1, limits.block_tokens);
  decode.block_table.resize(blocks);
  std::iota(decode.block_table.begin(), decode.block_table.end(), 0);
  if (blocks < limits.kv_blocks) {
    const int32_t spare = static_cast<int32_t>(blocks);
    plan.block_copies = {{.from = decode.block_table.back(), .to = spare}};
    decode.block_table.back() = spare;
  }
  if (limits.state_slots > 1) {
    decode.state_slot = prefill.state_slot + 1;
    plan.state_restores = {
        {.from = prefill.state_slot, .to = decode.state_slot}};
    plan.state_saves = {{.from = decode.state_slot, .to = prefill.state_slot}};
  }
  return plan;
}

}  // namespace

std::vector<StepPlan> WarmUpPlans(const StepPlanLimits& limits,
                                  uint64_t epoch) {
  const int64_t most = std::min({limits.max_tokens, limits.max_model_len - 1,
                                 limits.kv_blocks * limits.block_tokens - 1});
  PlannedSequence prefill;
  for (int64_t i = 0; i < std::max<int64_t>(most, 1); ++i)
    prefill.token_ids.push_back(static_cast<int32_t>(i % limits.vocab_size));
  const int64_t rows = static_cast<int64_t>(prefill.token_ids.size());
  prefill.block_table.resize(CeilDivide(rows, limits.block_tokens));
  std::iota(prefill.block_table.begin(), prefill.block_table.end(), 0);
  prefill.logit_rows = 1;

  std::vector<StepPlan> plans(1);
  plans[0] = {.kind = StepKind::kWarmUp,
              .epoch = epoch,
              .step = 1,
              .sequences = {prefill}};
  // The smallest pools and contexts have room for one token only.
  if (rows <
      std::min(limits.max_model_len, limits.kv_blocks * limits.block_tokens))
    plans.push_back(DecodePlan(prefill, limits, epoch));
  return plans;
}

absl::Status CompareLogits(const ModelRunner& runner, Collective& comm) {
  const uint64_t mine = runner.LogitsHash();
  std::vector<uint64_t> all(comm.size());
  comm.AllGather(MakeTensor(const_cast<uint64_t*>(&mine), DType::kI32, 2),
                 MakeTensor(all.data(), DType::kI32, comm.size(), 2));
  RETURN_IF_ERROR(comm.status());
  std::string ranks;
  for (int rank = 1; rank < comm.size(); ++rank)
    if (all[rank] != all[0]) absl::StrAppend(&ranks, " ", rank);
  if (ranks.empty()) return absl::OkStatus();
  return ReasonedError(
      absl::StatusCode::kInternal, "RANK_DIVERGED",
      absl::StrCat("logits of a warm-up step differ from rank 0's on ranks",
                   ranks));
}

}  // namespace phalanx
