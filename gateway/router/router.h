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
//
// All groups serve one model: the first that is ready says which, and as long
// as any group says the same, one of another model or another max_model_len is
// not ready. Nor is one with a smaller vocabulary than the tokenizer's.
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
    Route(int64_t index, WorkerGroup& group,
          std::shared_ptr<const WorkerGroup::View> view,
          std::atomic<int64_t>& load);
    Route(Route&& other) noexcept;
    Route& operator=(Route&& other) noexcept;
    ~Route();

    WorkerGroup& group() const { return *group_; }
    // Which of the router's groups.
    int64_t index() const { return index_; }
    // As the group was when this was made.
    const WorkerGroup::View& view() const { return *view_; }

   private:
    int64_t index_ = 0;
    WorkerGroup* group_ = nullptr;
    std::shared_ptr<const WorkerGroup::View> view_;
    std::atomic<int64_t>* load_ = nullptr;
  };

  // At least one group, of unlike names; observers[g], lent, sees groups[g], or
  // nobody does where there is none. `on_change` gets whether any group is
  // ready, on a watching thread, whenever that changes and once at the start.
  Router(std::vector<GroupSpec> groups, std::function<void(bool)> on_change,
         int64_t tokenizer_size = 0,
         std::vector<WorkerGroup::Observer*> observers = {});
  ~Router();

  // The group to take now: of those that are ready the one that ChooseGroup
  // finds (placement.h), among those of hint.numerics_id if there are any, and
  // of these among those not in doubt if there are any. As NotReady if none is.
  absl::StatusOr<Route> Pick(const RouteHint& hint);

  // Of a group that is ready, for what is the same in all: the model and its
  // limits. As NotReady if none is.
  absl::StatusOr<std::shared_ptr<const WorkerGroup::View>> ReadyView() const;

  // UNAVAILABLE in words: STARTING{phase,progress}, of the group that is
  // furthest, until this gateway saw one ready; then NO_READY_GROUP{phase}.
  absl::Status NotReady() const;

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
  // What a group says that it serves; an empty digest: nothing yet.
  struct Served {
    std::string digest;
    int64_t max_model_len = 0;
    bool operator==(const Served&) const = default;
  };
  // A group that is ready, with its view.
  struct Choice {
    int64_t index = 0;
    std::shared_ptr<const WorkerGroup::View> view;
  };

  void OnChange(size_t group, bool ready);
  std::string Judge(size_t group, const v1::WorkerStatus& leader, bool ready);
  std::string WhyUnlike(size_t group, const Served& served, bool ready);
  std::vector<Choice> ReadyGroups() const;

  const std::function<void(bool)> on_change_;
  const int64_t tokenizer_size_;
  std::vector<std::atomic<int64_t>> loads_;  // By group.
  // Streams of other gateways in the group, when rank 0 was last heard.
  std::vector<std::atomic<int64_t>> others_;
  mutable Mutex mutex_;
  std::vector<Served> said_ ABSL_GUARDED_BY(mutex_);  // By group.
  Served served_ ABSL_GUARDED_BY(mutex_);             // Of all that are ready.
  bool ever_ready_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<bool> ready_ ABSL_GUARDED_BY(mutex_);
  int told_ ABSL_GUARDED_BY(mutex_) =
      -1;  // What on_change_ got last; -1: none.
  std::vector<std::weak_ptr<Waiter>> waiters_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 0;  // Waiters, to drop dead ones.
  std::vector<std::unique_ptr<WorkerGroup>> groups_;  // Last: they call back.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_ROUTER_ROUTER_H_
