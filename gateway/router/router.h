#ifndef PHALANX_GATEWAY_ROUTER_ROUTER_H_
#define PHALANX_GATEWAY_ROUTER_ROUTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "gateway/router/worker_group.h"

namespace phalanx {

// One group: its name in metrics and logs, and where its ranks listen.
struct GroupSpec {
  std::string name;
  std::vector<std::string> addresses;  // addresses[r]: rank r.
};

// What a stream wants of a group.
struct RouteHint {
  std::span<const int32_t> prompt_ids;
  std::string cache_salt;
  // Of the group that a stream began in: one that computes the same bits is
  // better than any other. Empty: none yet.
  std::string numerics_id;
};

// Which of a gateway's groups takes a stream. Made by main; outlives every
// stream. Methods: any thread.
class Router {
 public:
  // One that has nowhere to go now.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // A group became ready, or stopped being so. On the watching thread,
    // without a lock of the router; must be short.
    virtual void OnGroupsChanged() = 0;
  };

  // A stream's place in a group: counts as the group's load until it dies. Move
  // only; the router outlives it.
  class Route {
   public:
    Route() = default;
    Route(WorkerGroup& group, std::shared_ptr<const WorkerGroup::View> view,
          std::atomic<int64_t>& load);
    Route(Route&& other) noexcept;
    Route& operator=(Route&& other) noexcept;
    ~Route();

    WorkerGroup& group() const { return *group_; }
    // As the group was when this was made.
    const WorkerGroup::View& view() const { return *view_; }

   private:
    WorkerGroup* group_ = nullptr;
    std::shared_ptr<const WorkerGroup::View> view_;
    std::atomic<int64_t>* load_ = nullptr;
  };

  // At least one group; observers[g], lent, sees groups[g], or nobody does
  // where there is none. `on_change` gets whether any group is ready, on a
  // watching thread, whenever that changes and once at the start.
  Router(std::vector<GroupSpec> groups, std::function<void(bool)> on_change,
         int64_t tokenizer_size = 0,
         std::vector<WorkerGroup::Observer*> observers = {});
  ~Router();

  // The group to take now. As WorkerGroup::NotReady where none is ready.
  absl::StatusOr<Route> Pick(const RouteHint& hint);

  // Of a group that is ready, for what is the same in all: the model and its
  // limits. As Pick.
  absl::StatusOr<std::shared_ptr<const WorkerGroup::View>> ReadyView() const;

  // Calls the waiter at the next change, once; nothing if it is gone by then.
  // Who waits calls this first and looks for a group after.
  void Await(std::weak_ptr<Waiter> waiter);

  int64_t group_count() const { return static_cast<int64_t>(groups_.size()); }
  // 0 <= g < group_count().
  WorkerGroup& group(int64_t g) { return *groups_[g]; }
  const WorkerGroup& group(int64_t g) const { return *groups_[g]; }
  // Streams of this gateway that are in the group.
  int64_t load(int64_t g) const { return loads_[g].load(); }

 private:
  void OnChange(size_t group, bool ready);

  const std::function<void(bool)> on_change_;
  std::vector<std::atomic<int64_t>> loads_;  // By group.
  Mutex mutex_;
  std::vector<bool> ready_ ABSL_GUARDED_BY(mutex_);
  int told_ ABSL_GUARDED_BY(mutex_) =
      -1;  // What on_change_ got last; -1: none.
  std::vector<std::weak_ptr<Waiter>> waiters_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<WorkerGroup>> groups_;  // Last: they call back.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_ROUTER_ROUTER_H_
