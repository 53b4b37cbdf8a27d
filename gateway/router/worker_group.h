#ifndef PHALANX_GATEWAY_ROUTER_WORKER_GROUP_H_
#define PHALANX_GATEWAY_ROUTER_WORKER_GROUP_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "admin.pb.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "worker.grpc.pb.h"

namespace phalanx {

// The N ranks of one group as a gateway sees them: asks each for its status
// five times a second, and knows from the answers whether the group can serve.
// Made by main; outlives every stream; has one thread. Methods: any thread.
class WorkerGroup {
 public:
  // What was seen last.
  struct View {
    bool ready = false;  // Every rank is, in one epoch.
    std::string state;   // As GroupStatus.state.
    std::string detail;  // Why it is not ready.
    uint64_t epoch = 0;
    std::vector<v1::RankStatus> ranks;  // In order of rank.

    // Rank 0's facts; empty while it cannot be reached.
    const v1::WorkerStatus& leader() const { return ranks.front().worker(); }
    // How much of the weights the slowest rank has, 0..1; 0 where one cannot be
    // reached.
    double progress() const;
  };

  // Sees every look at the group, on the watching thread: for metrics. Calls
  // must be short.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnSeen(const View&) {}
    // A rank was asked for its status.
    virtual void OnStatusCall(absl::StatusCode, double /*seconds*/) {}
  };

  // Why a group may not serve though its ranks are `ready`, from what rank 0
  // says; empty if it may. Called on the watching thread for every answer of
  // rank 0.
  using Judge =
      std::function<std::string(const v1::WorkerStatus& leader, bool ready)>;

  // addresses[r] is where rank r listens, a name of DNS or a number; at least
  // one. `on_change` is called on the watching thread whenever `ready` changes,
  // and once at the start; a new epoch is told as a change to false and back. A
  // group that the judge objects to is not ready. `observer` is lent; null:
  // nobody looks.
  WorkerGroup(std::string name, std::vector<std::string> addresses,
              std::function<void(bool ready)> on_change, Judge judge = nullptr,
              Observer* observer = nullptr);
  ~WorkerGroup();

  std::shared_ptr<const View> view() const;
  const std::string& name() const { return name_; }

  // Rank 0's stub, for Generate and Cancel.
  v1::Worker::StubInterface& leader() { return *stubs_.front(); }

  // Look again now: a stream has just seen the group fail. It is in doubt until
  // the group was looked at since.
  void Refresh();
  bool in_doubt() const;

 private:
  void Watch();
  void Tell(const View& seen);
  std::shared_ptr<const View> Look();

  const std::string name_;
  const std::vector<std::string> addresses_;
  const std::function<void(bool)> on_change_;
  const Judge judge_;
  Observer no_observer_;
  Observer& observer_;
  const MonotonicClock clock_;
  std::vector<std::unique_ptr<v1::Worker::StubInterface>> stubs_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  int64_t doubts_ ABSL_GUARDED_BY(mutex_) = 0;    // Calls of Refresh.
  int64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;  // That view_ is later than.
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool was_ready_ = false;  // The watching thread's.
  bool told_ = false;
  uint64_t told_epoch_ = 0;
  std::thread thread_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_ROUTER_WORKER_GROUP_H_
