// The engine alone, without gateway, sockets and text: decode of one stream and
// prefill of one prompt, TP 1 with two threads against TP 2 of one thread each,
// in processes, in turns.
//
//   engine_bench [MODEL [ROUNDS [DECODE [PROMPT]]]]
//
// Ranks that do not work sleep meanwhile. Not a test.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/units.h"
#include "kernels/cpu/cpu_backend.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/loader.h"
#include "worker/collective/local.h"
#include "worker/collective/shm.h"
#include "worker/cpu_share.h"
#include "worker/engine/engine.h"
#include "worker/engine/follower.h"
#include "worker/engine/status_board.h"
#include "worker/experts/resident_experts.h"
#include "worker/scheduler/inbox.h"
#include "worker/scheduler/limits.h"

namespace phalanx {
namespace {

constexpr uint64_t kEpoch = 1;
constexpr int64_t kPrefillChunk = 512;

struct Job {
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
};

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "engine_bench: %s\n",
                 std::string(value.status().message()).c_str());
    std::exit(1);
  }
  return *std::move(value);
}

// When its tokens came.
class TimingSink final : public TokenSink {
 public:
  void Admitted(double, int64_t) override {}
  void Push(std::vector<Token>) override {
    last_ = clock_.now_seconds();
    if (first_ == 0) first_ = last_;
  }
  void Finish(FinishReason, int32_t) override { end_.Notify(); }
  void Close(absl::Status error) override { CHECK(error.ok()); }
  bool cancelled() const override { return false; }

  void Wait() { end_.WaitForNotification(); }
  double first() const { return first_; }
  double last() const { return last_; }

 private:
  const MonotonicClock clock_;
  double first_ = 0;
  double last_ = 0;
  absl::Notification end_;
};

SchedulerLimits LimitsFor(const Job& most) {
  SchedulerLimits limits;
  limits.max_running = 1;
  limits.max_waiting = 1;
  limits.max_model_len = most.prompt_tokens + most.output_tokens;
  limits.prefill_chunk = kPrefillChunk;
  limits.step_tokens = kPrefillChunk + 1;
  limits.kv_blocks = CeilDivide(limits.max_model_len, limits.block_tokens);
  limits.state_slots = 1;
  return limits;
}

// One rank in this process, as `phalanx serve` would start it.
struct Rank {
  Rank(const std::string& model_dir, int rank, int tp_size, const Job& most)
      : limits(LimitsFor(most)) {
    const CpuShare share = ShareCpus(AllowedCpus(), rank, tp_size, 0);
    backend = Must(CreateCpuBackend({.threads = share.threads,
                                     .cpus = share.cpus,
                                     .spin = share.spin,
                                     .isa = std::nullopt,
                                     .family = std::nullopt}));
    config = Must(LoadModelConfig(model_dir));
    limits.vocab_size = config.vocab_size;
    local = Must(MakeLocalShape(config, rank, tp_size));
    weights = Must(LoadWeights(Must(Checkpoint::Open(model_dir)), config, local,
                               *backend));
    experts = std::make_unique<ResidentExperts>(weights);
    runner = Must(ModelRunner::Create(*backend, config, local, weights,
                                      *experts, PlanLimits(limits)));
  }

  SchedulerLimits limits;
  std::unique_ptr<Backend> backend;
  ModelConfig config;
  LocalShape local;
  Weights weights;
  std::unique_ptr<ResidentExperts> experts;
  std::unique_ptr<ModelRunner> runner;
};

// Rank 0: runs a job for each that comes, answers with seconds to the first
// token and from there to the last.
void Lead(Rank& rank, Collective& comm, int jobs, int answers) {
  const MonotonicClock clock;
  Inbox inbox;
  StatusBoard board;
  Engine engine(rank.limits, *rank.runner, inbox, board, clock);
  std::thread thread([&] {
    CHECK(engine
              .Run(comm, kEpoch,
                   {.kv_blocks = rank.limits.kv_blocks,
                    .state_slots = rank.limits.state_slots})
              .ok());
  });
  while (board.Read().state != WorkerState::kReady) std::this_thread::yield();
  Job job;
  for (int i = 0; read(jobs, &job, sizeof(job)) == sizeof(job); ++i) {
    Request request;
    request.id = std::to_string(i);
    request.epoch = kEpoch;
    for (int64_t t = 0; t < job.prompt_tokens; ++t)
      request.prompt_ids.push_back(static_cast<int32_t>(
          (7 * t + 13 * i) % (rank.config.vocab_size / 2)));
    request.max_tokens = job.output_tokens;
    TimingSink sink;
    const double start = clock.now_seconds();
    CHECK(inbox.Submit(request, &sink).ok());
    sink.Wait();
    const double seconds[2] = {sink.first() - start,
                               sink.last() - sink.first()};
    CHECK(write(answers, seconds, sizeof(seconds)) == sizeof(seconds));
  }
  engine.Stop();
  thread.join();
}

// A group of processes that waits for jobs.
class Group {
 public:
  Group(const std::string& model_dir, int tp_size, const Job& most) {
    CHECK(pipe(jobs_) == 0 && pipe(answers_) == 0);
    const std::string name = NewShmName(kEpoch);
    for (int rank = 0; rank < tp_size; ++rank) {
      if (fork() != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      Live(model_dir, name, rank, tp_size, most);
      _exit(0);
    }
    Run({.prompt_tokens = 1, .output_tokens = 2});  // Loads.
  }

  std::pair<double, double> Run(const Job& job) const {
    CHECK(write(jobs_[1], &job, sizeof(job)) == sizeof(job));
    double seconds[2];
    CHECK(read(answers_[0], seconds, sizeof(seconds)) == sizeof(seconds));
    return {seconds[0], seconds[1]};
  }

 private:
  void Live(const std::string& model_dir, const std::string& name, int rank,
            int tp_size, const Job& most) const {
    Rank self(model_dir, rank, tp_size, most);
    std::unique_ptr<Collective> comm =
        tp_size == 1 ? std::move(CreateLocalGroup(1).front())
                     : Must(JoinShmGroup({.name = name,
                                          .rank = rank,
                                          .size = tp_size,
                                          .epoch = kEpoch,
                                          .timeout_seconds = 600}));
    StatusBoard board;
    if (rank == 0)
      Lead(self, *comm, jobs_[0], answers_[1]);
    else
      CHECK(Follower(*self.runner, board).Run(*comm, kEpoch).ok());
  }

  int jobs_[2];
  int answers_[2];
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Compare(const char* what, const std::vector<double>& one,
             const std::vector<double>& two) {
  std::vector<double> ratios;
  for (size_t i = 0; i < one.size(); ++i) ratios.push_back(two[i] / one[i]);
  std::printf(
      "%-8s TP 1 %10.1f tokens/s, TP 2 %10.1f tokens/s, ratio %.3f "
      "(%.3f .. %.3f)\n",
      what, Median(one), Median(two), Median(ratios),
      *std::min_element(ratios.begin(), ratios.end()),
      *std::max_element(ratios.begin(), ratios.end()));
}

int Main(const std::string& model, int rounds, const Job& job) {
  const Group one(model, 1, job);
  const Group two(model, 2, job);
  std::vector<double> decode[2], prefill[2];
  for (int i = 0; i < rounds; ++i) {
    for (int g = 0; g < 2; ++g) {
      const auto [first, rest] = (g == 0 ? one : two).Run(job);
      prefill[g].push_back(static_cast<double>(job.prompt_tokens) / first);
      decode[g].push_back(static_cast<double>(job.output_tokens - 1) / rest);
    }
  }
  Compare("decode", decode[0], decode[1]);
  Compare("prefill", prefill[0], prefill[1]);
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  const std::string model = argc > 1 ? argv[1] : "deploy/models/phalanx-mini";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  const phalanx::Job job{.prompt_tokens = argc > 4 ? std::atoi(argv[4]) : 512,
                         .output_tokens = argc > 3 ? std::atoi(argv[3]) : 1000};
  return phalanx::Main(model, rounds, job);
}
