#include "gateway/cli/launcher.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/status.h"

namespace phalanx {
namespace {

constexpr int64_t kDeathsForAll = 3;
constexpr double kDeathsWindowSeconds = 60;
constexpr int kReapIntervalMs = 20;

}  // namespace

Launcher::Launcher(
    std::vector<ChildSpec> specs, const Clock& clock,
    std::function<void(const std::string&, absl::string_view)> on_line)
    : specs_(std::move(specs)), clock_(clock), on_line_(std::move(on_line)) {}

Launcher::~Launcher() { StopAll(/*grace_seconds=*/0); }

absl::Status Launcher::StartAll() {
  for (size_t i = 0; i < specs_.size(); ++i) RETURN_IF_ERROR(StartOne(i));
  return absl::OkStatus();
}

absl::Status Launcher::StartOne(size_t child) {
  ASSIGN_OR_RETURN(ChildProcess process,
                   ChildProcess::Start(specs_[child].argv(restarts_)));
  if (child < children_.size())
    children_[child] = std::move(process);
  else
    children_.push_back(std::move(process));
  return absl::OkStatus();
}

std::optional<Launcher::Death> Launcher::Poll(int timeout_ms) {
  const double until = clock_.now_seconds() + timeout_ms / 1000.0;
  while (true) {
    std::vector<pollfd> fds;
    for (const ChildProcess& child : children_)
      fds.push_back({.fd = child.stderr_fd(), .events = POLLIN, .revents = 0});
    const double left_ms = (until - clock_.now_seconds()) * 1000;
    poll(fds.data(), fds.size(),
         std::clamp(static_cast<int>(left_ms), 0, kReapIntervalMs));
    for (size_t i = 0; i < children_.size(); ++i) {
      const bool was_running = children_[i].running();
      std::string how;
      const bool ended = children_[i].Reap(how);
      children_[i].ReadLines(
          [&](absl::string_view line) { on_line_(specs_[i].name, line); });
      if (was_running && ended)
        return Death{.child = i, .name = specs_[i].name, .how = how};
    }
    if (clock_.now_seconds() >= until) return std::nullopt;
  }
}

absl::Status Launcher::RestartAfter(const Death& death) {
  ++restarts_;
  const double now = clock_.now_seconds();
  deaths_seconds_.push_back(now);
  while (now - deaths_seconds_.front() > kDeathsWindowSeconds)
    deaths_seconds_.pop_front();
  if (static_cast<int64_t>(deaths_seconds_.size()) < kDeathsForAll) {
    LogWarning("launcher", "restarting",
               {{"child", death.name}, {"ended", death.how}});
    return StartOne(death.child);
  }
  LogWarning("launcher", "restarting all",
             {{"child", death.name},
              {"ended", death.how},
              {"deaths", static_cast<int64_t>(deaths_seconds_.size())},
              {"window_seconds", kDeathsWindowSeconds}});
  deaths_seconds_.clear();
  StopAll(/*grace_seconds=*/2);
  return StartAll();
}

void Launcher::StopAll(double grace_seconds) {
  for (const ChildProcess& child : children_) child.Signal(SIGTERM);
  const double until = clock_.now_seconds() + grace_seconds;
  auto running = [this] {
    return std::any_of(children_.begin(), children_.end(),
                       [](const ChildProcess& c) { return c.running(); });
  };
  while (running() && clock_.now_seconds() < until) Poll(kReapIntervalMs);
  children_.clear();  // Kills what is left.
}

}  // namespace phalanx
