#include "tests/worker/engine/engine_group.h"

#include <utility>

#include "tests/support/status_matchers.h"

namespace phalanx {

EngineGroup::EngineGroup(const std::string& model_dir, int tp_size,
                         SchedulerLimits limits)
    : limits_(limits), boards_(tp_size) {
  ranks_ = TpGroup::MustCreate({.model_dir = model_dir,
                                .tp_size = tp_size,
                                .backends = BestCpuBackends(),
                                .limits = PlanLimits(limits)});
  limits_.vocab_size = ranks_->config().vocab_size;
  engine_ = std::make_unique<Engine>(limits_, *ranks_->rank(0).runner, inbox_,
                                     boards_[0], clock_);
}

EngineGroup::~EngineGroup() {
  if (threads_.empty()) return;
  engine_->Stop();
  Join();
}

void EngineGroup::Start(uint64_t epoch) { Start(epoch, epoch); }

void EngineGroup::Start(uint64_t epoch, uint64_t followers_epoch) {
  ranks_->Regroup();
  over_.store(false);
  results_.assign(ranks_->size(), absl::OkStatus());
  const PoolSizes pools{.kv_blocks = limits_.kv_blocks,
                        .state_slots = limits_.state_slots};
  threads_.emplace_back([this, epoch, pools] {
    results_[0] = engine_->Run(collective(0), epoch, pools);
    // As the daemon does: nobody must wait for a rank that left.
    if (!results_[0].ok()) collective(0).Abort(results_[0]);
    over_.store(true);
  });
  for (int r = 1; r < ranks_->size(); ++r) {
    threads_.emplace_back([this, r, followers_epoch] {
      Follower follower(*ranks_->rank(r).runner, boards_[r]);
      results_[r] = follower.Run(collective(r), followers_epoch);
    });
  }
}

void EngineGroup::AwaitReady() {
  while (!over_.load() && board().Read().state != WorkerState::kReady)
    std::this_thread::yield();
}

std::vector<absl::Status> EngineGroup::Join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return results_;
}

TokenRecorder::Result EngineGroup::Ask(const Request& request) {
  TokenRecorder sink;
  const absl::Status status = inbox_.Submit(request, &sink);
  EXPECT_OK(status);
  if (!status.ok()) return {};
  return sink.Wait();
}

}  // namespace phalanx
