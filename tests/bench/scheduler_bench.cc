// What a step costs the scheduler: Plan and Encode, with 256 sequences that
// decode, alone and with 256 more that wait. The median and the 99th percentile
// of many steps, in microseconds; Commit beside them. Not a test.
//
//   scheduler_bench [--check]
//
// --check exits with 1 if a median of Plan and Encode is above 200 us.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "worker/scheduler/scheduler.h"

namespace phalanx {
namespace {

constexpr int kRunning = 256;
constexpr int kSteps = 3000;
// More than any makes while the others' prompts are computed.
constexpr int64_t kMaxTokens = 12'000;
constexpr double kMostMicroseconds = 200;

class Ignore final : public TokenSink {
 public:
  void Admitted(double, int64_t) override {}
  void Push(std::vector<Token>) override {}
  void Finish(FinishReason, int32_t) override {}
  void Close(absl::Status) override {}
  bool cancelled() const override { return false; }
};

struct Load {
  const char* name;
  int64_t prompt_tokens;
  int waiting;
  int places;  // max_running; there is memory for kRunning alone.
};

double Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now() - start)
      .count();
}

double Quantile(std::vector<double>& values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q *
                                    static_cast<double>(values.size() - 1))];
}

Request Ask(int i, int64_t prompt_tokens) {
  Request request;
  request.id = std::to_string(i);
  request.key = std::to_string(i % 16);
  for (int64_t t = 0; t < prompt_tokens; ++t)
    request.prompt_ids.push_back(static_cast<int32_t>((7 * t + i) % 1000));
  request.min_tokens = request.max_tokens = kMaxTokens;
  request.stop_ids = {1, 2};
  return request;
}

// Returns the median of Plan and Encode.
double Run(const Load& load) {
  const int64_t blocks_each = (load.prompt_tokens + kMaxTokens) / 64 + 1;
  const SchedulerLimits limits = {.max_running = load.places,
                                  .max_waiting = 2 * kRunning,
                                  .max_model_len = 50'000,
                                  .prefill_chunk = 2048,
                                  .step_tokens = 2048 + load.places,
                                  .kv_blocks = kRunning * blocks_each,
                                  .state_slots = 2 * load.places,
                                  .vocab_size = 1000};
  const MonotonicClock clock;
  Scheduler scheduler(limits, 1, clock);
  std::deque<Ignore> sinks(kRunning + load.waiting);
  const auto step = [&] {
    StepPlan plan = scheduler.Plan();
    scheduler.Commit(plan,
                     {scheduler.samples().size(), Token{.id = 5, .top = {}}});
    return plan;
  };
  for (int i = 0; i < kRunning + load.waiting; ++i)
    CHECK(scheduler.Submit(Ask(i, load.prompt_tokens), &sinks[i]).ok());
  while (step().token_count() != kRunning) {
  }

  std::vector<double> plan_us, commit_us;
  size_t bytes = 0;
  for (int i = 0; i < kSteps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const StepPlan plan = scheduler.Plan();
    bytes = Encode(plan).size();
    plan_us.push_back(Since(start));
    CHECK(plan.sequences.size() == kRunning);
    std::vector<absl::StatusOr<Token>> sampled(scheduler.samples().size(),
                                               Token{.id = 5, .top = {}});
    const auto commit = std::chrono::steady_clock::now();
    scheduler.Commit(plan, std::move(sampled));
    commit_us.push_back(Since(commit));
  }
  const double median = Quantile(plan_us, 0.5);
  std::printf(
      "%-40s plan + encode %6.1f us, p99 %6.1f us; commit %6.1f us, "
      "p99 %6.1f us; %zu bytes\n",
      load.name, median, Quantile(plan_us, 0.99), Quantile(commit_us, 0.5),
      Quantile(commit_us, 0.99), bytes);
  scheduler.CloseAll(absl::AbortedError("the end"));
  return median;
}

int Main(bool check) {
  const Load loads[] = {
      {"256 decoding, 1,000 tokens", 1000, 0, kRunning},
      {"256 decoding, 30,000 tokens", 30'000, 0, kRunning},
      {"256 decoding, 256 waiting for a place", 1000, kRunning, kRunning},
      {"256 decoding, 256 waiting for memory", 1000, kRunning, 2 * kRunning}};
  double worst = 0;
  for (const Load& load : loads) worst = std::max(worst, Run(load));
  return check && worst > kMostMicroseconds ? 1 : 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  return phalanx::Main(argc > 1 && std::string(argv[1]) == "--check");
}
