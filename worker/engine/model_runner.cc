#include "worker/engine/model_runner.h"

#include <algorithm>
#include <cstring>

#include "common/status.h"

namespace phalanx {
namespace {

StepLimits LimitsOf(const StepPlanLimits& limits) {
  return {.tokens = limits.max_tokens, .logit_rows = limits.max_logit_rows};
}

}  // namespace

int64_t ModelRunner::DeviceWorkspaceBytes(const ModelConfig& config,
                                          const LocalShape& local,
                                          const StepPlanLimits& limits,
                                          DType act) {
  return Qwen35Moe::WorkspaceBytes(config, local, LimitsOf(limits), act) +
         StepInputs::Bytes(limits);
}

int64_t ModelRunner::HostWorkspaceBytes(const LocalShape& local,
                                        const StepPlanLimits& limits) {
  const int64_t planes = local.tp_size * local.vocab_rows;
  return limits.max_logit_rows * (planes + limits.vocab_size) *
             ElementBytes(DType::kF32) +
         StepInputs::Bytes(limits);
}

absl::StatusOr<std::unique_ptr<ModelRunner>> ModelRunner::Create(
    Backend& backend, const ModelConfig& config, const LocalShape& local,
    const Weights& weights, ExpertSource& experts,
    const StepPlanLimits& limits) {
  std::unique_ptr<ModelRunner> runner(
      new ModelRunner(backend, experts, limits));
  KvCacheShape kv = Qwen35Moe::KvShape(config, local);
  kv.blocks = limits.kv_blocks;
  ASSIGN_OR_RETURN(runner->kv_cache_, KvCache::Create(backend, kv));
  StateCacheShape state = Qwen35Moe::StateShape(config, local);
  state.slots = limits.state_slots;
  ASSIGN_OR_RETURN(runner->state_cache_, StateCache::Create(backend, state));
  ASSIGN_OR_RETURN(runner->model_,
                   Qwen35Moe::Create(backend, config, local, weights, experts,
                                     *runner->kv_cache_, *runner->state_cache_,
                                     LimitsOf(limits)));
  ASSIGN_OR_RETURN(runner->inputs_, StepInputs::Create(backend, limits));
  return runner;
}

absl::Status ModelRunner::Run(const StepPlan& plan, Collective& comm,
                              Probe* probe) {
  experts_.Count(plan.kind == StepKind::kRun);
  for (const CacheCopy& copy : plan.block_copies)
    kv_cache_->Copy(backend_.ops(), copy.from, copy.to);
  CopyStates(plan.state_restores);
  const Step step = inputs_->Load(plan);
  const Tensor planes = model_->Forward(step, comm, probe);
  CopyStates(plan.state_saves);
  RETURN_IF_ERROR(backend_.Synchronize());
  RETURN_IF_ERROR(comm.status());
  FetchLogits(planes);
  return backend_.Synchronize();  // The copy may have failed, too.
}

void ModelRunner::CopyStates(std::span<const CacheCopy> copies) {
  for (const CacheCopy& copy : copies)
    state_cache_->Copy(backend_.ops(), copy.from, copy.to);
}

// A row of logits lies in N planes; the vocabulary is their concatenation, less
// the padding at its end.
void ModelRunner::FetchLogits(Tensor planes) {
  const auto [N, R, rows, unused] = planes.dims;
  planes_.resize(planes.elements());
  if (R > 0) backend_.Download(planes, planes_.data());
  logits_.resize(R * limits_.vocab_size);
  for (int64_t r = 0; r < R; ++r) {
    for (int64_t n = 0; n < N; ++n) {
      const int64_t count =
          std::clamp<int64_t>(limits_.vocab_size - n * rows, 0, rows);
      std::copy_n(planes_.data() + (n * R + r) * rows, count,
                  logits_.data() + r * limits_.vocab_size + n * rows);
    }
  }
}

std::span<const float> ModelRunner::logits(int64_t r) const {
  return std::span<const float>(logits_).subspan(r * limits_.vocab_size,
                                                 limits_.vocab_size);
}

// FNV-1a over the bits, a word at a time. Source: Fowler, Noll, Vo.
uint64_t ModelRunner::LogitsHash() const {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const float value : logits_) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    hash = (hash ^ bits) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace phalanx
