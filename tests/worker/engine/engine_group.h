#ifndef PHALANX_TESTS_WORKER_ENGINE_ENGINE_GROUP_H_
#define PHALANX_TESTS_WORKER_ENGINE_ENGINE_GROUP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "tests/support/token_recorder.h"
#include "tests/support/tp_group.h"
#include "worker/engine/engine.h"
#include "worker/engine/follower.h"
#include "worker/engine/status_board.h"
#include "worker/scheduler/inbox.h"

namespace phalanx {

// Engine and followers of a whole group, each on a thread of its own, as the
// daemons run them.
//
//   EngineGroup group(dir, 2, limits);
//   group.Start(/*epoch=*/1);
//   group.AwaitReady();
//   ... group.inbox().Submit(...) ...
//   group.engine().Stop();
//   group.Join();  // The status of each rank.
//
// Life: made by a test, used by its thread; may Start again after Join.
class EngineGroup {
 public:
  // `limits` but for vocab_size, which is the model's.
  EngineGroup(const std::string& model_dir, int tp_size,
              SchedulerLimits limits);
  ~EngineGroup();

  // One epoch, on new collectives.
  void Start(uint64_t epoch);
  // The same, with followers that believe in another epoch.
  void Start(uint64_t epoch, uint64_t followers_epoch);

  // Returns once the group serves, or has given up.
  void AwaitReady();

  // Waits until every rank has left; what Run returned on each.
  std::vector<absl::Status> Join();

  // Submits and waits; the test fails if the request is refused.
  TokenRecorder::Result Ask(const Request& request);

  Engine& engine() { return *engine_; }
  Inbox& inbox() { return inbox_; }
  const StatusBoard& board() const { return boards_[0]; }
  const StatusBoard& board(int rank) const { return boards_[rank]; }
  TpGroup& ranks() { return *ranks_; }
  Collective& collective(int rank) { return *ranks_->rank(rank).comm; }

 private:
  SchedulerLimits limits_;
  std::unique_ptr<TpGroup> ranks_;
  MonotonicClock clock_;
  Inbox inbox_;
  std::vector<StatusBoard> boards_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::thread> threads_;
  std::vector<absl::Status> results_;
  std::atomic<bool> over_{false};  // The engine's Run has returned.
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_ENGINE_ENGINE_GROUP_H_
