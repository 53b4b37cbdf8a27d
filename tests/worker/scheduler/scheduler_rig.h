#ifndef PHALANX_TESTS_WORKER_SCHEDULER_SCHEDULER_RIG_H_
#define PHALANX_TESTS_WORKER_SCHEDULER_SCHEDULER_RIG_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/scheduler/recording_sink.h"
#include "worker/scheduler/scheduler.h"

namespace phalanx {

// A scheduler with a clock that stands still, and steps whose tokens the test
// says. What is left at the end is closed.
class SchedulerRig : public testing::Test {
 protected:
  static constexpr uint64_t kEpoch = 5;

  static SchedulerLimits Limits() {
    return {.max_running = 2,
            .max_waiting = 2,
            .max_model_len = 300,
            .prefill_chunk = 8,
            .step_tokens = 10,
            .kv_blocks = 4,
            .state_slots = 2,
            .vocab_size = 1000,
            .block_tokens = 64};
  }
  // Room for long prompts, and for snapshots.
  static SchedulerLimits WideLimits() {
    return {.max_running = 8,
            .max_waiting = 100,
            .max_model_len = 40000,
            .prefill_chunk = 512,
            .step_tokens = 520,
            .kv_blocks = 2000,
            .state_slots = 40,
            .vocab_size = 1000,
            .block_tokens = 64};
  }

  SchedulerRig() { Use(Limits()); }
  // Before the sinks of the fixtures go.
  void TearDown() override { scheduler_->CloseAll(absl::AbortedError("over")); }

  // A new scheduler; the requests of the one before are closed.
  void Use(const SchedulerLimits& limits) {
    if (scheduler_ != nullptr) TearDown();
    scheduler_ = std::make_unique<Scheduler>(limits, kEpoch, clock_);
  }
  Scheduler& scheduler() { return *scheduler_; }

  // One more sink, which stays.
  RecordingSink& NewSink() { return sinks_.emplace_back(); }

  // Its prompt is first_id, first_id + 1 ..
  static Request Ask(const std::string& id, int64_t prompt_tokens,
                     int64_t max_tokens = 4, int32_t first_id = 0) {
    Request request;
    request.id = id;
    for (int32_t i = 0; i < prompt_tokens; ++i)
      request.prompt_ids.push_back((first_id + i) % 1000);
    request.max_tokens = max_tokens;
    return request;
  }
  void Submit(Request request, RecordingSink& sink) {
    ASSERT_OK(scheduler_->Submit(std::move(request), &sink));
  }

  // Runs one step whose every sampled token is `id`.
  StepPlan Step(int32_t id = 500) {
    StepPlan plan = scheduler_->Plan();
    if (plan.sequences.empty()) return plan;
    std::vector<absl::StatusOr<Token>> sampled;
    for (const SampleSpec& spec : scheduler_->samples()) {
      Token token;
      token.id = spec.given.value_or(id);
      sampled.push_back(token);
    }
    scheduler_->Commit(plan, std::move(sampled));
    return plan;
  }
  void Steps(int count) {
    while (count-- > 0) (void)Step();
  }
  void StepUntilEnd(const RecordingSink& sink) {
    while (sink.ends == 0) (void)Step();
  }
  void StepUntilIdle() {
    while (!Step().sequences.empty()) {
    }
  }
  // Rows of each sequence of a plan.
  static std::vector<int64_t> RowsOf(const StepPlan& plan) {
    std::vector<int64_t> rows;
    for (const PlannedSequence& sequence : plan.sequences)
      rows.push_back(static_cast<int64_t>(sequence.token_ids.size()));
    return rows;
  }

  ManualClock clock_;

 private:
  std::deque<RecordingSink> sinks_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_SCHEDULER_SCHEDULER_RIG_H_
