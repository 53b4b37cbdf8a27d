#include "tests/support/tp_group.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/loader.h"
#include "worker/collective/local.h"
#include "worker/experts/expert_cache.h"
#include "worker/experts/mapped_bank.h"
#include "worker/experts/resident_experts.h"

namespace phalanx {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok())
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  CHECK(value.ok());
  return *std::move(value);
}

// Ranks outnumber the processors, so none of them spins.
CpuBackendConfig RankConfig() {
  CpuBackendConfig config;
  config.threads = 1;
  config.spin = false;
  return config;
}

}  // namespace

BackendFactory ReferenceBackends() {
  return []() -> absl::StatusOr<std::unique_ptr<Backend>> {
    return std::make_unique<ReferenceBackend>();
  };
}

BackendFactory CpuBackends(Isa isa, KernelFamily family) {
  return [=] {
    CpuBackendConfig config = RankConfig();
    config.isa = isa;
    config.family = family;
    return CreateCpuBackend(config);
  };
}

BackendFactory BestCpuBackends() {
  return [] { return CreateCpuBackend(RankConfig()); };
}

PlannedSequence Lane::Take(std::span<const int32_t> ids, bool wants_logits) {
  PlannedSequence rows;
  rows.state_slot = slot;
  rows.past = past;
  rows.token_ids.assign(ids.begin(), ids.end());
  rows.logit_rows = wants_logits ? 1 : 0;
  past += static_cast<int64_t>(ids.size());
  const int64_t needed = CeilDivide(past, kKvBlockTokens);
  CHECK(needed <= static_cast<int64_t>(blocks.size()));
  rows.block_table.assign(blocks.begin(), blocks.begin() + needed);
  return rows;
}

StepPlanLimits LaneLimits(int64_t sequences, int64_t tokens) {
  return {.max_sequences = sequences,
          .max_tokens = sequences * tokens,
          .max_logit_rows = sequences,
          .max_model_len = tokens,
          .vocab_size = 0,
          .state_slots = sequences,
          .kv_blocks = sequences * CeilDivide(tokens, kKvBlockTokens)};
}

absl::StatusOr<std::unique_ptr<TpGroup>> TpGroup::Create(
    const TpGroupOptions& options) {
  std::unique_ptr<TpGroup> group(new TpGroup());
  ASSIGN_OR_RETURN(group->config_, LoadModelConfig(options.model_dir));
  group->limits_ = options.limits;
  group->limits_.vocab_size = group->config_.vocab_size;
  // Runners refer to their weights, so ranks must not move any more.
  group->ranks_.resize(options.tp_size);
  for (int r = 0; r < options.tp_size; ++r)
    RETURN_IF_ERROR(group->Load(options, r));
  group->Regroup();
  return group;
}

absl::Status TpGroup::Load(const TpGroupOptions& options, int r) {
  Rank& rank = ranks_[r];
  const std::optional<Offload>& offload = options.offload;
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(options.model_dir));
  ASSIGN_OR_RETURN(rank.local, MakeLocalShape(config_, r, options.tp_size));
  if (offload.has_value() && offload->full)
    rank.local = WithWholeExperts(config_, rank.local);
  ASSIGN_OR_RETURN(rank.backend, options.backends());
  ASSIGN_OR_RETURN(rank.weights,
                   LoadWeights(checkpoint, config_, rank.local, *rank.backend,
                               {.routed_experts = !offload.has_value(),
                                .format = options.format}));
  if (offload.has_value()) {
    ASSIGN_OR_RETURN(rank.bank, MappedBank::Create(
                                    std::move(checkpoint), config_, rank.local,
                                    *rank.backend, options.format));
    ASSIGN_OR_RETURN(
        rank.experts,
        ExpertCache::Create(*rank.backend, config_, rank.local, *rank.bank,
                            {.slots = offload->slots,
                             .fetch_threads = 1,
                             .format = options.format}));
  } else {
    rank.experts = std::make_unique<ResidentExperts>(rank.weights);
  }
  ASSIGN_OR_RETURN(rank.runner,
                   ModelRunner::Create(*rank.backend, config_, rank.local,
                                       rank.weights, *rank.experts, limits_));
  return absl::OkStatus();
}

std::unique_ptr<TpGroup> TpGroup::MustCreate(const TpGroupOptions& options) {
  return Must(Create(options));
}

void TpGroup::Regroup() {
  auto group = CreateLocalGroup(size());
  for (int r = 0; r < size(); ++r) ranks_[r].comm = std::move(group[r]);
}

std::vector<absl::Status> TpGroup::OnEveryRank(
    const std::function<absl::Status(int rank)>& fn) {
  std::vector<absl::Status> results(size());
  std::vector<std::thread> threads;
  for (int r = 0; r < size(); ++r)
    threads.emplace_back([&, r] { results[r] = fn(r); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

absl::StatusOr<LogitRows> TpGroup::Run(const StepPlan& plan, Probe* probe) {
  const auto results = OnEveryRank([&](int r) {
    return ranks_[r].runner->Run(plan, *ranks_[r].comm,
                                 r == 0 ? probe : nullptr);
  });
  for (const absl::Status& status : results) RETURN_IF_ERROR(status);
  LogitRows rows;
  for (int64_t i = 0; i < plan.logits_count(); ++i) {
    const std::span<const float> row = ranks_[0].runner->logits(i);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

LogitRows TpGroup::MustRun(std::vector<PlannedSequence> sequences,
                           Probe* probe) {
  StepPlan plan;
  plan.sequences = std::move(sequences);
  return Must(Run(plan, probe));
}

Lane TpGroup::MakeLane(int32_t slot, int32_t first_block, int64_t tokens) {
  Lane lane;
  lane.slot = slot;
  lane.blocks.resize(CeilDivide(tokens, kKvBlockTokens));
  std::iota(lane.blocks.begin(), lane.blocks.end(), first_block);
  return lane;
}

std::vector<float> Prefill(TpGroup& group, Lane& lane,
                           std::span<const int32_t> ids, int64_t chunk) {
  LogitRows rows;
  while (!ids.empty()) {
    const size_t count = std::min<size_t>(chunk, ids.size());
    rows = group.MustRun({lane.Take(ids.first(count), count == ids.size())});
    ids = ids.subspan(count);
  }
  CHECK(rows.size() == 1);
  return rows[0];
}

int32_t BestToken(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

LogitRows Continue(TpGroup& group, Lane& lane, std::span<const int32_t> prompt,
                   int64_t chunk, int64_t steps) {
  LogitRows rows = {Prefill(group, lane, prompt, chunk)};
  for (int64_t i = 0; i < steps; ++i) {
    const int32_t next = BestToken(rows.back());
    rows.push_back(group.MustRun({lane.Take({&next, 1}, true)})[0]);
  }
  return rows;
}

}  // namespace phalanx
