#include "gateway/router/worker_group.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"

namespace phalanx {
namespace {

constexpr std::chrono::milliseconds kInterval{200};
constexpr std::chrono::milliseconds kStatusDeadline{1000};
// A process that is stopped, or a host that is gone, closes no socket: its
// streams end after the sum of these.
constexpr int kKeepaliveMs = 1'000;
constexpr int kKeepaliveTimeoutMs = 2'000;
// A rank that moved has a new address under its old name.
constexpr int kResolveAgainMs = 500;

std::unique_ptr<v1::Worker::StubInterface> StubOf(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS,
                   kResolveAgainMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  return v1::Worker::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

// A group is as far as its slowest rank.
const char* StateName(const std::vector<v1::RankStatus>& ranks) {
  auto any = [&](v1::RankState state) {
    return std::any_of(ranks.begin(), ranks.end(), [&](const auto& rank) {
      return rank.worker().state() == state;
    });
  };
  if (std::any_of(ranks.begin(), ranks.end(),
                  [](const auto& rank) { return !rank.reachable(); }))
    return "forming";
  if (any(v1::RANK_STATE_FAILED)) return "failed";
  if (any(v1::RANK_STATE_DRAINING)) return "draining";
  if (any(v1::RANK_STATE_LOADING)) return "loading";
  if (any(v1::RANK_STATE_FORMING)) return "forming";
  if (any(v1::RANK_STATE_WARMING)) return "warming";
  return "ready";
}

std::string DetailOf(const std::vector<v1::RankStatus>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (!ranks[r].reachable())
      return absl::StrCat("rank ", r, " at ", ranks[r].address(), ": ",
                          ranks[r].error());
    if (!ranks[r].worker().detail().empty())
      return absl::StrCat("rank ", r, ": ", ranks[r].worker().detail());
  }
  return "";
}

// Ranks that are all ready may still be of two epochs, or listed in the wrong
// order; empty if neither.
std::string WhyNotOneGroup(const std::vector<v1::RankStatus>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    const v1::WorkerStatus& worker = ranks[r].worker();
    if (worker.rank() != static_cast<int>(r) ||
        worker.tp_size() != static_cast<int>(ranks.size()))
      return absl::StrCat("the worker at ", ranks[r].address(), " is rank ",
                          worker.rank(), " of ", worker.tp_size(),
                          "; must be rank ", r, " of ", ranks.size());
    if (worker.epoch() != ranks.front().worker().epoch())
      return "the ranks are not in one epoch yet";
  }
  return "";
}

}  // namespace

double WorkerGroup::View::progress() const {
  double least = 1;
  for (const v1::RankStatus& rank : ranks)
    least = std::min(least, rank.worker().load_progress());
  return least;
}

WorkerGroup::WorkerGroup(std::string name, std::vector<std::string> addresses,
                         std::function<void(bool)> on_change, Judge judge,
                         Observer* observer)
    : name_(std::move(name)),
      addresses_(std::move(addresses)),
      on_change_(std::move(on_change)),
      judge_(std::move(judge)),
      observer_(observer != nullptr ? *observer : no_observer_) {
  CHECK(!addresses_.empty());
  View unseen;
  unseen.state = "forming";
  unseen.detail = "no rank was reached yet";
  for (const std::string& address : addresses_) {
    stubs_.push_back(StubOf(address));
    v1::RankStatus rank;
    rank.set_address(address);
    rank.set_error("not reached yet");
    unseen.ranks.push_back(rank);
  }
  view_ = std::make_shared<const View>(std::move(unseen));
  thread_ = std::thread([this] { Watch(); });
}

WorkerGroup::~WorkerGroup() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

std::shared_ptr<const WorkerGroup::View> WorkerGroup::view() const {
  MutexLock lock(mutex_);
  return view_;
}

void WorkerGroup::Refresh() {
  MutexLock lock(mutex_);
  ++doubts_;
  changed_.SignalAll();
}

bool WorkerGroup::in_doubt() const {
  MutexLock lock(mutex_);
  return doubts_ > answered_;
}

void WorkerGroup::Watch() {
  int64_t doubts = 0;  // Before this look.
  while (true) {
    std::shared_ptr<const View> seen = Look();
    {
      MutexLock lock(mutex_);
      if (stop_) return;
      view_ = seen;
      answered_ = doubts;
    }
    observer_.OnSeen(*seen);
    Tell(*seen);
    MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, kInterval,
                     [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                       return stop_ || doubts_ > answered_;
                     });
    doubts = doubts_;
    if (stop_) return;
  }
}

// A group that was lost and formed again between two looks was not ready in
// between, and those who watch must hear of it.
void WorkerGroup::Tell(const View& seen) {
  const bool reformed =
      told_ && was_ready_ && seen.ready && seen.epoch != told_epoch_;
  if (reformed) on_change_(false);
  if (reformed || !told_ || seen.ready != was_ready_) {
    LogInfo("router", seen.ready ? "group ready" : "group not ready",
            {{"group", name_}, {"epoch", seen.epoch}, {"state", seen.state}});
    on_change_(seen.ready);
  }
  told_ = true;
  told_epoch_ = seen.epoch;
  was_ready_ = seen.ready;
}

// All ranks are asked at once, so that a silent one delays nobody's news by
// more than its own deadline.
std::shared_ptr<const WorkerGroup::View> WorkerGroup::Look() {
  struct Call {
    grpc::ClientContext context;
    v1::WorkerStatus response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReaderInterface<v1::WorkerStatus>>
        reader;
  };
  // A queue, not callbacks: all of a call is over, also within gRPC, before
  // this returns, so a group may be destroyed right after.
  grpc::CompletionQueue queue;
  std::vector<Call> calls(addresses_.size());
  const double began_seconds = clock_.now_seconds();
  for (size_t r = 0; r < calls.size(); ++r) {
    Call& call = calls[r];
    call.context.set_deadline(std::chrono::system_clock::now() +
                              kStatusDeadline);
    call.reader = stubs_[r]->PrepareAsyncGetStatus(
        &call.context, v1::WorkerStatusRequest(), &queue);
    call.reader->StartCall();
    call.reader->Finish(&call.response, &call.status, &call);
  }
  void* tag = nullptr;
  bool ok = false;
  for (size_t left = calls.size(); left > 0; --left) {
    queue.Next(&tag, &ok);
    const auto code = static_cast<const Call*>(tag)->status.error_code();
    observer_.OnStatusCall(static_cast<absl::StatusCode>(code),
                           clock_.now_seconds() - began_seconds);
  }
  queue.Shutdown();
  CHECK(!queue.Next(&tag, &ok));
  View seen;
  for (size_t r = 0; r < calls.size(); ++r) {
    v1::RankStatus rank;
    rank.set_address(addresses_[r]);
    rank.set_reachable(calls[r].status.ok());
    if (rank.reachable())
      *rank.mutable_worker() = std::move(calls[r].response);
    else
      rank.set_error(calls[r].status.error_message());
    seen.epoch = std::max(seen.epoch, rank.worker().epoch());
    seen.ranks.push_back(std::move(rank));
  }
  seen.state = StateName(seen.ranks);
  seen.detail = DetailOf(seen.ranks);
  if (seen.state == "ready") seen.detail = WhyNotOneGroup(seen.ranks);
  const bool whole = seen.state == "ready" && seen.detail.empty();
  if (judge_ != nullptr && seen.ranks.front().reachable()) {
    const std::string objection = judge_(seen.leader(), whole);
    if (whole) seen.detail = objection;
  }
  if (seen.state == "ready" && !seen.detail.empty()) seen.state = "forming";
  seen.ready = seen.state == "ready";
  return std::make_shared<const View>(std::move(seen));
}

}  // namespace phalanx
