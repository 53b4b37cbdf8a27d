#include "gateway/cli/launcher.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/log.h"
#include "common/status.h"

namespace phalanx {
namespace {

constexpr int64_t kDeathsForAll = 3;
constexpr double kDeathsWindowSeconds = 60;
// A child that lived so long did not die of its start.
constexpr double kLongLifeSeconds = 60;
constexpr double kFirstBackoffSeconds = 0.1;
constexpr double kLastBackoffSeconds = 30;
// Between two looks for children that were stopped, which wakes no poll.
constexpr double kLookSeconds = 0.1;
// For all to end when one has died too often.
constexpr double kRestartGraceSeconds = 2;

}  // namespace

Launcher::Launcher(
    std::vector<ChildSpec> specs, const Clock& clock,
    std::function<void(const std::string&, absl::string_view)> on_line,
    const Options& options)
    : specs_(std::move(specs)),
      clock_(clock),
      on_line_(std::move(on_line)),
      options_(options),
      children_(specs_.size()) {}

Launcher::~Launcher() { StopAll(/*grace_seconds=*/0); }

absl::Status Launcher::StartAll() {
  for (size_t i = 0; i < specs_.size(); ++i) RETURN_IF_ERROR(StartOne(i));
  return absl::OkStatus();
}

absl::Status Launcher::StartOne(size_t child) {
  Child& one = children_[child];
  one.due_seconds = kNever;
  one.stopped = false;
  one.started_seconds = clock_.now_seconds();
  ASSIGN_OR_RETURN(one.process,
                   ChildProcess::Start(specs_[child].argv(restarts_)));
  return absl::OkStatus();
}

void Launcher::StartDue() {
  for (size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    if (clock_.now_seconds() < child.due_seconds) continue;
    const absl::Status started = StartOne(i);
    if (started.ok()) continue;
    const double delay = CountDeath(child);
    LogWarning("launcher", "not started",
               {{"child", specs_[i].name},
                {"cause", started.message()},
                {"again_in_seconds", delay}});
    child.due_seconds = clock_.now_seconds() + delay;
  }
}

std::optional<Launcher::Death> Launcher::Poll(int timeout_ms) {
  const double until = clock_.now_seconds() + timeout_ms / 1000.0;
  while (true) {
    StartDue();
    Wait(until);
    for (size_t i = 0; i < children_.size(); ++i)
      if (auto death = Look(i)) return death;
    const bool woken = options_.waker != nullptr && options_.waker->Take();
    if (woken || clock_.now_seconds() >= until) return std::nullopt;
  }
}

void Launcher::Wait(double until_seconds) {
  std::vector<pollfd> fds;
  if (options_.waker != nullptr)
    fds.push_back({.fd = options_.waker->fd(), .events = POLLIN, .revents = 0});
  for (const Child& child : children_) {
    until_seconds = std::min(until_seconds, child.due_seconds);
    if (!child.process.has_value()) continue;
    for (const int fd : {child.process->stderr_fd(), child.process->pidfd()})
      fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  const double left = until_seconds - clock_.now_seconds();
  poll(fds.data(), fds.size(),
       static_cast<int>(std::ceil(1000 * std::clamp(left, 0.0, kLookSeconds))));
}

std::optional<Launcher::Death> Launcher::Look(size_t child) {
  Child& one = children_[child];
  if (!one.process.has_value()) return std::nullopt;
  const bool was_running = one.process->running();
  std::string how;
  const ChildProcess::Change change = one.process->Look(how);
  one.process->ReadLines(
      [&](absl::string_view line) { on_line_(specs_[child].name, line); });
  switch (change) {
    case ChildProcess::Change::kNone:
      break;
    case ChildProcess::Change::kStopped:
      one.stopped = true;
      one.stopped_at_seconds = clock_.now_seconds();
      break;
    case ChildProcess::Change::kContinued:
      one.stopped = false;
      break;
    case ChildProcess::Change::kEnded:
      if (!was_running) break;
      return Death{.child = child, .name = specs_[child].name, .how = how};
  }
  KillStopped(child);
  return std::nullopt;
}

void Launcher::KillStopped(size_t child) {
  Child& one = children_[child];
  const double seconds = clock_.now_seconds() - one.stopped_at_seconds;
  if (!one.stopped || seconds < options_.stopped_seconds) return;
  LogWarning("launcher", "killing a stopped child",
             {{"child", specs_[child].name}, {"stopped_seconds", seconds}});
  one.stopped = false;
  one.process->Signal(SIGKILL);
}

// How long to wait with its next start.
double Launcher::CountDeath(Child& child) const {
  const double life = clock_.now_seconds() - child.started_seconds;
  child.quick_deaths = life < kLongLifeSeconds ? child.quick_deaths + 1 : 1;
  if (child.quick_deaths == 1) return 0;
  return std::min(
      kLastBackoffSeconds,
      std::ldexp(kFirstBackoffSeconds, static_cast<int>(std::min<int64_t>(
                                           child.quick_deaths - 2, 30))));
}

void Launcher::RestartAfter(const Death& death) {
  if (children_[death.child].retired) return;
  ++restarts_;
  const double now = clock_.now_seconds();
  const double delay = CountDeath(children_[death.child]);
  deaths_seconds_.push_back(now);
  while (now - deaths_seconds_.front() > kDeathsWindowSeconds)
    deaths_seconds_.pop_front();
  const int64_t deaths = static_cast<int64_t>(deaths_seconds_.size());
  const bool all = deaths >= kDeathsForAll;
  LogWarning("launcher", all ? "restarting all" : "restarting",
             {{"child", death.name},
              {"ended", death.how},
              {"in_seconds", delay},
              {"deaths", deaths},
              {"window_seconds", kDeathsWindowSeconds}});
  if (all) {
    deaths_seconds_.clear();
    StopAll(kRestartGraceSeconds);
  }
  for (size_t i = 0; i < children_.size(); ++i)
    if ((all || i == death.child) && !children_[i].retired)
      children_[i].due_seconds = now + delay;
  StartDue();
}

void Launcher::StopAll(double grace_seconds) {
  for (Child& child : children_) child.due_seconds = kNever;
  SignalAll(SIGTERM);
  SignalAll(SIGINT);
  const double until = clock_.now_seconds() + grace_seconds;
  while (any_running() && clock_.now_seconds() < until)
    Poll(static_cast<int>(1000 * kLookSeconds));
  for (Child& child : children_) child.process.reset();  // Kills what is left.
}

void Launcher::Signal(size_t child, int number) const {
  if (running(child)) children_[child].process->Signal(number);
}

void Launcher::SignalAll(int number) const {
  for (size_t i = 0; i < children_.size(); ++i) Signal(i, number);
}

bool Launcher::running(size_t child) const {
  const std::optional<ChildProcess>& process = children_[child].process;
  return process.has_value() && process->running();
}

bool Launcher::any_running() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& c) {
    return c.process.has_value() && c.process->running();
  });
}

}  // namespace phalanx
