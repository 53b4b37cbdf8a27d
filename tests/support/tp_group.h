#ifndef PHALANX_TESTS_SUPPORT_TP_GROUP_H_
#define PHALANX_TESTS_SUPPORT_TP_GROUP_H_

// A tensor-parallel group in one process: what N daemons are, without
// processes. For tests alone.
//
//   auto group = TpGroup::MustCreate({.model_dir = dir, .tp_size = 2,
//       .backends = ReferenceBackends(), .limits = LaneLimits(1, 300)});
//   Lane lane = TpGroup::MakeLane(/*slot=*/0, /*first_block=*/0, 300);
//   LogitRows rows = group->MustRun({lane.Take(prompt, true)});

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/weights.h"
#include "worker/collective/collective.h"
#include "worker/engine/model_runner.h"
#include "worker/experts/expert_bank.h"
#include "worker/experts/expert_source.h"
#include "worker/model/qwen35_moe.h"
#include "worker/scheduler/step_plan.h"

namespace phalanx {

using BackendFactory =
    std::function<absl::StatusOr<std::unique_ptr<Backend>>()>;

BackendFactory ReferenceBackends();
// Of one thread each, since ranks are threads already.
BackendFactory CpuBackends(Isa isa, KernelFamily family);
// Whatever this processor has; PHALANX_ISA counts.
BackendFactory BestCpuBackends();

// Vocabulary order, one entry for each row that wanted logits.
using LogitRows = std::vector<std::vector<float>>;

// One sequence by hand: its caches and how far it is. The tests' stand-in for
// the scheduler where they say themselves how rows are cut.
struct Lane {
  int32_t slot = 0;
  std::vector<int32_t> blocks;
  int64_t past = 0;

  // Rows for the next step; counts them as done. There must be blocks for them.
  PlannedSequence Take(std::span<const int32_t> ids, bool wants_logits);
};

// Experts in the mapped checkpoint, and slots for some of them.
struct Offload {
  bool full = false;  // Whole experts on every rank, or the rank's part.
  int64_t slots = 0;
};

struct TpGroupOptions {
  std::string model_dir;
  int tp_size = 1;
  BackendFactory backends;  // Called once a rank, in order of ranks.
  StepPlanLimits limits;    // vocab_size is the model's, whatever it says.
  std::optional<Offload> offload = std::nullopt;  // None: resident.
  WeightFormat format = WeightFormat::kBf16;
};

// Limits with room for `sequences` lanes of `tokens` tokens each, and for steps
// of all their rows at once.
StepPlanLimits LaneLimits(int64_t sequences, int64_t tokens);

// Life: made by a test and used by its thread; every call runs one thread a
// rank and joins them.
class TpGroup {
 public:
  struct Rank {
    std::unique_ptr<Backend> backend;
    LocalShape local;
    Weights weights;
    std::unique_ptr<ExpertBank> bank;  // Null where experts are resident.
    std::unique_ptr<ExpertSource> experts;
    std::unique_ptr<ModelRunner> runner;
    std::unique_ptr<Collective> comm;
  };

  // Errors are those of loading.
  static absl::StatusOr<std::unique_ptr<TpGroup>> Create(
      const TpGroupOptions& options);
  // The same, where an error is a broken test: ends the program.
  static std::unique_ptr<TpGroup> MustCreate(const TpGroupOptions& options);

  // Runs the plan on all ranks and returns rank 0's logits. `probe` looks at
  // rank 0. The first rank's error otherwise.
  absl::StatusOr<LogitRows> Run(const StepPlan& plan, Probe* probe = nullptr);
  LogitRows MustRun(std::vector<PlannedSequence> sequences,
                    Probe* probe = nullptr);

  // fn(r) on a thread of rank r each, at once; the status of each.
  std::vector<absl::Status> OnEveryRank(
      const std::function<absl::Status(int rank)>& fn);

  // New collectives, as a new epoch gets them. Nobody uses the old ones.
  void Regroup();

  // A fresh sequence with blocks first_block, first_block + 1, ... for
  // `tokens` tokens.
  static Lane MakeLane(int32_t slot, int32_t first_block, int64_t tokens);

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int r) { return ranks_[r]; }
  const ModelConfig& config() const { return config_; }
  const StepPlanLimits& limits() const { return limits_; }

 private:
  TpGroup() = default;
  absl::Status Load(const TpGroupOptions& options, int r);

  ModelConfig config_;
  StepPlanLimits limits_;
  std::vector<Rank> ranks_;
};

// Feeds `ids` in chunks of at most `chunk` rows; the last row's logits.
std::vector<float> Prefill(TpGroup& group, Lane& lane,
                           std::span<const int32_t> ids, int64_t chunk);

// The id of the largest logit; the lower one of equals.
int32_t BestToken(std::span<const float> logits);

// Prefill, then `steps` decode steps that feed the best token: the logits of
// the prompt's last row and of each decode row.
LogitRows Continue(TpGroup& group, Lane& lane, std::span<const int32_t> prompt,
                   int64_t chunk, int64_t steps);

}  // namespace phalanx

#endif  // PHALANX_TESTS_SUPPORT_TP_GROUP_H_
