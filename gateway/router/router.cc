#include "gateway/router/router.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace phalanx {

Router::Route::Route(WorkerGroup& group,
                     std::shared_ptr<const WorkerGroup::View> view,
                     std::atomic<int64_t>& load)
    : group_(&group), view_(std::move(view)), load_(&load) {
  load_->fetch_add(1);
}

Router::Route::Route(Route&& other) noexcept { *this = std::move(other); }

Router::Route& Router::Route::operator=(Route&& other) noexcept {
  std::swap(group_, other.group_);
  std::swap(view_, other.view_);
  std::swap(load_, other.load_);
  return *this;
}

Router::Route::~Route() {
  if (load_ != nullptr) load_->fetch_sub(1);
}

Router::Router(std::vector<GroupSpec> groups,
               std::function<void(bool)> on_change, int64_t tokenizer_size,
               std::vector<WorkerGroup::Observer*> observers)
    : on_change_(std::move(on_change)),
      loads_(groups.size()),
      ready_(groups.size(), false) {
  CHECK(!groups.empty());
  observers.resize(groups.size(), nullptr);
  groups_.reserve(groups.size());
  for (size_t g = 0; g < groups.size(); ++g)
    groups_.push_back(std::make_unique<WorkerGroup>(
        std::move(groups[g].name), std::move(groups[g].addresses),
        [this, g](bool ready) { OnChange(g, ready); }, tokenizer_size,
        observers[g]));
}

Router::~Router() { groups_.clear(); }

void Router::OnChange(size_t group, bool ready) {
  std::vector<std::weak_ptr<Waiter>> waiters;
  bool any;
  bool tell;
  {
    MutexLock lock(mutex_);
    ready_[group] = ready;
    any = std::find(ready_.begin(), ready_.end(), true) != ready_.end();
    tell = told_ != static_cast<int>(any);
    told_ = static_cast<int>(any);
    waiters.swap(waiters_);
  }
  if (tell) on_change_(any);
  for (const std::weak_ptr<Waiter>& waiter : waiters)
    if (const auto alive = waiter.lock()) alive->OnGroupsChanged();
}

absl::StatusOr<Router::Route> Router::Pick(const RouteHint&) {
  absl::Status none;
  int64_t best = -1;
  std::shared_ptr<const WorkerGroup::View> best_view;
  for (int64_t g = 0; g < group_count(); ++g) {
    auto view = groups_[g]->ReadyView();
    if (!view.ok()) {
      if (none.ok()) none = view.status();
      continue;
    }
    if (best >= 0 && loads_[g].load() >= loads_[best].load()) continue;
    best = g;
    best_view = *std::move(view);
  }
  if (best < 0) return none;
  return Route(*groups_[best], std::move(best_view), loads_[best]);
}

absl::StatusOr<std::shared_ptr<const WorkerGroup::View>> Router::ReadyView()
    const {
  absl::Status none;
  for (const auto& group : groups_) {
    auto view = group->ReadyView();
    if (view.ok()) return view;
    if (none.ok()) none = view.status();
  }
  return none;
}

void Router::Await(std::weak_ptr<Waiter> waiter) {
  MutexLock lock(mutex_);
  waiters_.push_back(std::move(waiter));
}

}  // namespace phalanx
