#include "gateway/router/router.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/reason.h"
#include "gateway/router/placement.h"

namespace phalanx {
namespace {

constexpr size_t kSweepAt = 64;

// Drops those that are not `good`, unless none is.
template <typename Choices, typename Predicate>
void Prefer(Choices& choices, const Predicate& good) {
  if (std::any_of(choices.begin(), choices.end(), good))
    std::erase_if(choices, [&](const auto& one) { return !good(one); });
}

// Where a group stands, in words.
std::string Standing(const std::string& name, const WorkerGroup::View& view) {
  return absl::StrCat("group ", name, " is ", view.state,
                      view.detail.empty() ? "" : ": ", view.detail);
}

}  // namespace

Router::Route::Route(int64_t index, WorkerGroup& group,
                     std::shared_ptr<const WorkerGroup::View> view,
                     std::atomic<int64_t>& load)
    : index_(index), group_(&group), view_(std::move(view)), load_(&load) {
  load_->fetch_add(1);
}

Router::Route::Route(Route&& other) noexcept { *this = std::move(other); }

Router::Route& Router::Route::operator=(Route&& other) noexcept {
  std::swap(index_, other.index_);
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
      tokenizer_size_(tokenizer_size),
      loads_(groups.size()),
      others_(groups.size()),
      said_(groups.size()),
      ready_(groups.size(), false) {
  CHECK(!groups.empty());
  observers.resize(groups.size(), nullptr);
  groups_.reserve(groups.size());
  for (size_t g = 0; g < groups.size(); ++g)
    groups_.push_back(std::make_unique<WorkerGroup>(
        std::move(groups[g].name), std::move(groups[g].addresses),
        [this, g](bool ready) { OnChange(g, ready); },
        [this, g](const v1::WorkerStatus& leader, bool ready) {
          return Judge(g, leader, ready);
        },
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
    ever_ready_ = ever_ready_ || any;
    waiters.swap(waiters_);
  }
  if (tell) on_change_(any);
  for (const std::weak_ptr<Waiter>& waiter : waiters)
    if (const auto alive = waiter.lock()) alive->OnGroupsChanged();
}

// On the watching thread of each group. What rank 0 has beyond this gateway's
// own is others' load; the two figures are of one moment, or nearly so.
std::string Router::Judge(size_t group, const v1::WorkerStatus& leader,
                          bool ready) {
  others_[group].store(std::max<int64_t>(0, leader.requests_running() +
                                                leader.requests_waiting() -
                                                loads_[group].load()));
  const int64_t vocab_size = leader.model().vocab_size();
  if (ready && vocab_size < tokenizer_size_)
    return absl::StrCat("vocab_size is ", vocab_size,
                        "; must be at least the tokenizer's ", tokenizer_size_,
                        " ids: workers and gateway have different models");
  return WhyUnlike(group, {leader.model_digest(), leader.max_model_len()},
                   ready);
}

std::string Router::WhyUnlike(size_t group, const Served& served, bool ready) {
  MutexLock lock(mutex_);
  if (!served.digest.empty()) said_[group] = served;
  if (!ready || served == served_) return "";
  // A group that cannot be reached still counts as what it was: it may come
  // back, and its streams go on in a group of the same model only.
  if (served_.digest.empty() ||
      std::find(said_.begin(), said_.end(), served_) == said_.end()) {
    served_ = served;
    return "";
  }
  if (served.digest != served_.digest)
    return absl::StrCat("the model's digest is ", served.digest, "; must be ",
                        served_.digest, ", that of the other groups");
  return absl::StrCat("max_model_len is ", served.max_model_len, "; must be ",
                      served_.max_model_len, ", that of the other groups");
}

std::vector<Router::Choice> Router::ReadyGroups() const {
  std::vector<Choice> ready;
  for (int64_t g = 0; g < group_count(); ++g)
    if (auto view = groups_[g]->view(); view->ready)
      ready.push_back({g, std::move(view)});
  return ready;
}

absl::StatusOr<Router::Route> Router::Pick(const RouteHint& hint) {
  std::vector<Choice> ready = ReadyGroups();
  if (ready.empty()) return NotReady();
  Prefer(ready, [&](const Choice& one) {
    return one.view->leader().numerics_id() == hint.numerics_id;
  });
  Prefer(ready,
         [&](const Choice& one) { return !groups_[one.index]->in_doubt(); });
  std::vector<Candidate> candidates;
  for (const Choice& one : ready)
    candidates.push_back(
        {.name = groups_[one.index]->name(),
         .streams = loads_[one.index].load() + others_[one.index].load(),
         .max_running =
             std::max<int64_t>(1, one.view->leader().max_running())});
  Choice& chosen = ready[ChooseGroup(
      candidates, PrefixKeyOf(hint.cache_salt, hint.prompt_ids))];
  return Route(chosen.index, *groups_[chosen.index], std::move(chosen.view),
               loads_[chosen.index]);
}

absl::Status Router::NotReady() const {
  const WorkerGroup* furthest = nullptr;
  std::shared_ptr<const WorkerGroup::View> furthest_view;
  std::string all;
  for (const auto& group : groups_) {
    std::shared_ptr<const WorkerGroup::View> view = group->view();
    absl::StrAppend(&all, all.empty() ? "" : "; ",
                    Standing(group->name(), *view));
    if (furthest == nullptr || view->progress() > furthest_view->progress()) {
      furthest = group.get();
      furthest_view = std::move(view);
    }
  }
  bool starting;
  {
    MutexLock lock(mutex_);
    starting = !ever_ready_;
  }
  std::map<std::string, std::string> facts = {{"phase", furthest_view->state}};
  if (starting)
    facts["progress"] = absl::StrFormat("%.2f", furthest_view->progress());
  return ReasonedError(absl::StatusCode::kUnavailable,
                       starting ? "STARTING" : "NO_READY_GROUP", all,
                       std::move(facts));
}

absl::StatusOr<std::shared_ptr<const WorkerGroup::View>> Router::ReadyView()
    const {
  std::vector<Choice> ready = ReadyGroups();
  if (ready.empty()) return NotReady();
  return ready.front().view;
}

void Router::Await(std::weak_ptr<Waiter> waiter) {
  MutexLock lock(mutex_);
  waiters_.push_back(std::move(waiter));
  if (waiters_.size() < sweep_at_) return;
  // While no group changes, those that gave up must not gather.
  std::erase_if(waiters_, [](const auto& one) { return one.expired(); });
  sweep_at_ = std::max<size_t>(kSweepAt, 2 * waiters_.size());
}

}  // namespace phalanx
