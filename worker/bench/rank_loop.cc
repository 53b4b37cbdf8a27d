#include "worker/bench/rank_loop.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>
#include <utility>

#include "common/clock.h"
#include "common/metrics/process_memory.h"
#include "common/status.h"
#include "common/units.h"
#include "worker/bench/metered_backend.h"
#include "worker/bench/noise.h"
#include "worker/bench/rank_messages.h"
#include "worker/collective/local.h"
#include "worker/collective/shm.h"
#include "worker/collective/timed_collective.h"
#include "worker/engine/follower.h"
#include "worker/engine/status_board.h"
#include "worker/loaded_rank.h"

namespace phalanx {
namespace {

constexpr uint64_t kEpoch = 1;
constexpr double kMeetSeconds = 30;
// Real states and keys are of this order.
constexpr float kNoise = 0.1f;

// Adds the seconds of collectives to those of ops.
class CollectiveSeconds final : public CollectiveObserver {
 public:
  explicit CollectiveSeconds(MeteredOps& ops) : ops_(ops) {}
  void OnCall(CollectiveOp, double seconds, int64_t) override {
    ops_.AddSeconds(Part::kCollective, seconds);
  }
  void OnSkew(double) override {}
  void OnFailure(CollectiveOp, CollectiveFailure) override {}

 private:
  MeteredOps& ops_;
};

absl::StatusOr<std::unique_ptr<Collective>> Meet(const WorkerConfig& flags,
                                                 bool spin,
                                                 const std::string& shm_name) {
  if (flags.tp_size == 1) return std::move(CreateLocalGroup(1).front());
  ShmConfig config;
  config.name = shm_name;
  config.rank = flags.rank;
  config.size = flags.tp_size;
  config.epoch = kEpoch;
  config.spin = spin;
  config.timeout_seconds = kMeetSeconds;
  return JoinShmGroup(config);
}

// The most that this process ever held, without the pages of mapped files that
// it has touched by now: those of a bank are the system's to keep or drop.
int64_t PeakBytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    if (word != "VmHWM:") continue;
    int64_t kilobytes = 0;
    file >> kilobytes;
    return (kilobytes << 10) - ReadProcessMemory().file;
  }
  return 0;
}

// So that contexts need no prefill: what a cache holds costs as much whatever
// it is.
void FillCaches(Backend& backend, const ModelRunner& runner) {
  const Noise noise(/*seed=*/1, kNoise);
  for (int64_t i = 0; i < runner.kv_cache().shape().layers; ++i) {
    noise.Fill(backend, runner.kv_cache().keys(i));
    noise.Fill(backend, runner.kv_cache().values(i));
  }
  for (int64_t i = 0; i < runner.state_cache().shape().layers; ++i) {
    noise.Fill(backend, runner.state_cache().state(i));
    noise.Fill(backend, runner.state_cache().conv(i));
  }
}

// The loop of rank 0.
class Passes {
 public:
  Passes(LoadedRank& rank, MeteredOps& ops, Collective& comm,
         int64_t prefill_chunk)
      : rank_(rank), ops_(ops), comm_(comm), prefill_chunk_(prefill_chunk) {}

  // Runs one pass to warm up, one to see how many fit, and then those.
  absl::StatusOr<PassResult> Run(const PassRequest& request) {
    random_.seed(request.seed);
    done_ = 0;
    RETURN_IF_ERROR(RunPass(request.c));
    double began = clock_.now_seconds();
    RETURN_IF_ERROR(RunPass(request.c));
    const double one = clock_.now_seconds() - began;

    PassResult result;
    const int64_t most = request.c.kind == CaseKind::kDecode
                             ? kMostDecodeSteps - done_
                             : kMostDecodeSteps;
    result.passes = std::clamp<int64_t>(
        static_cast<int64_t>(request.seconds / one), 1, most);
    const ExpertCacheCounters before = Experts();
    ops_.Restart(request.timing);
    began = clock_.now_seconds();
    for (int64_t i = 0; i < result.passes; ++i)
      RETURN_IF_ERROR(RunPass(request.c));
    result.seconds = clock_.now_seconds() - began;
    result.work = ops_.work();
    result.parts = ops_.seconds();
    const ExpertCacheCounters after = Experts();
    result.work.hits = static_cast<double>(after.hits - before.hits);
    result.work.fetches = static_cast<double>(after.fetches - before.fetches);
    result.work.fetched_bytes =
        static_cast<double>(after.fetched_bytes - before.fetched_bytes);
    return result;
  }

  absl::Status Stop() {
    StepPlan stop{.kind = StepKind::kStop, .epoch = kEpoch, .sequences = {}};
    std::string bytes = Encode(stop);
    return comm_.Broadcast(bytes);
  }

 private:
  ExpertCacheCounters Experts() const {
    return rank_.expert_cache() == nullptr ? ExpertCacheCounters()
                                           : rank_.expert_cache()->counters();
  }

  absl::Status RunPass(const BenchCase& c) {
    const int64_t pass = done_++;
    if (c.kind == CaseKind::kDecode) {
      StepPlan plan = NewPlan();
      const int64_t past = std::max<int64_t>(c.context, 1) + pass;
      for (int64_t i = 0; i < c.rows; ++i)
        plan.sequences.push_back(Sequence(c, i, past, 1, 1));
      return RunPlan(plan);
    }
    for (int64_t row = 0; row < c.rows; row += prefill_chunk_) {
      StepPlan plan = NewPlan();
      const int64_t rows = std::min(prefill_chunk_, c.rows - row);
      plan.sequences.push_back(
          Sequence(c, 0, c.context + row, rows, row + rows == c.rows ? 1 : 0));
      RETURN_IF_ERROR(RunPlan(plan));
    }
    return absl::OkStatus();
  }

  StepPlan NewPlan() {
    return {.kind = StepKind::kRun,
            .epoch = kEpoch,
            .step = ++step_,
            .sequences = {}};
  }

  // Sequence i of a case, with rows of random ids behind `past` tokens.
  PlannedSequence Sequence(const BenchCase& c, int64_t i, int64_t past,
                           int64_t rows, int64_t logit_rows) {
    PlannedSequence sequence;
    sequence.state_slot = static_cast<int32_t>(i);
    sequence.past = past;
    std::uniform_int_distribution<int32_t> ids(
        0, static_cast<int32_t>(rank_.runner().limits().vocab_size - 1));
    for (int64_t row = 0; row < rows; ++row)
      sequence.token_ids.push_back(ids(random_));
    sequence.block_table.resize(CeilDivide(past + rows, kKvBlockTokens));
    std::iota(sequence.block_table.begin(), sequence.block_table.end(),
              static_cast<int32_t>(i * BlocksOfSequence(c)));
    sequence.logit_rows = logit_rows;
    return sequence;
  }

  absl::Status RunPlan(const StepPlan& plan) {
    if (comm_.size() > 1) {
      std::string bytes = Encode(plan);
      RETURN_IF_ERROR(comm_.Broadcast(bytes));
    }
    return rank_.runner().Run(plan, comm_);
  }

  LoadedRank& rank_;
  MeteredOps& ops_;
  Collective& comm_;
  const int64_t prefill_chunk_;
  const MonotonicClock clock_;
  std::mt19937_64 random_;
  int64_t step_ = 0;
  int64_t done_ = 0;  // Passes of the request.
};

// Answers until told to end.
absl::Status Serve(Passes& passes, JsonChannel& channel) {
  while (true) {
    ASSIGN_OR_RETURN(const nlohmann::json request, channel.Receive());
    if (request.contains("end")) break;
    ASSIGN_OR_RETURN(const PassResult result,
                     passes.Run(PassRequestOf(request)));
    RETURN_IF_ERROR(channel.Send(ToJson(result)));
  }
  RETURN_IF_ERROR(passes.Stop());
  return channel.Send({{"peak_bytes", PeakBytes()}});
}

absl::Status RunRank(const WorkerConfig& flags, const PrepareRank& prepare,
                     const std::string& shm_name, JsonChannel* channel) {
  ASSIGN_OR_RETURN(BenchRank rank, prepare(flags));
  MeteredBackend backend(std::move(rank.backend));
  // Before loading, so that one who fails there is missed.
  ASSIGN_OR_RETURN(std::unique_ptr<Collective> met,
                   Meet(flags, rank.cpus.spin, shm_name));
  const MonotonicClock clock;
  CollectiveSeconds observer(backend.metered());
  TimedCollective comm(std::move(met), observer, clock);

  const double began = clock.now_seconds();
  LoadRequest request = {.checkpoint = *std::move(rank.checkpoint),
                         .model_digest = rank.model_digest,
                         .format = rank.format,
                         .pack_cache = flags.pack_cache,
                         .threads = rank.cpus.threads};
  ASSIGN_OR_RETURN(
      const std::unique_ptr<LoadedRank> loaded,
      LoadedRank::Create(std::move(request), rank.config, rank.plan, backend));
  const double load_seconds = clock.now_seconds() - began;
  const Weights& weights = loaded->weights();
  backend.metered().SetHead(weights.norm.data, weights.lm_head.storage.data());
  FillCaches(backend, loaded->runner());
  RETURN_IF_ERROR(comm.Barrier());
  if (channel == nullptr) {
    StatusBoard board;
    return Follower(loaded->runner(), board).Run(comm, kEpoch);
  }
  RETURN_IF_ERROR(channel->Send(ToJson(
      RankFacts{.kernel_family = backend.kernel_family(),
                .instruction_set = backend.instruction_set(),
                .moe_mode = std::string(MoeModeName(rank.plan.memory.moe_mode)),
                .weights = rank.format,
                .threads = backend.threads(),
                .load_seconds = load_seconds,
                .planned_bytes = rank.plan.memory.total()})));
  Passes passes(*loaded, backend.metered(), comm, flags.prefill_chunk);
  const absl::Status status = Serve(passes, *channel);
  if (!status.ok()) comm.Abort(status);
  return status;
}

}  // namespace

int RunBenchRank(const WorkerConfig& flags, const PrepareRank& prepare,
                 const std::string& shm_name, JsonChannel* channel) {
  const absl::Status status = RunRank(flags, prepare, shm_name, channel);
  if (status.ok()) return 0;
  const std::string text(status.message());
  // Nobody hears it if the parent is gone.
  if (channel != nullptr)
    channel->Send({{"error", text}}).IgnoreError();
  else
    std::fprintf(stderr, "phalanx bench model: rank %d: %s\n", flags.rank,
                 text.c_str());
  return 1;
}

}  // namespace phalanx
