#ifndef PHALANX_GATEWAY_CLI_LAUNCHER_H_
#define PHALANX_GATEWAY_CLI_LAUNCHER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "gateway/cli/child_process.h"
#include "gateway/cli/waker.h"

namespace phalanx {

// One daemon of a service: its name in messages and how to start it. `argv`
// gets the number of restarts so far, which a worker needs as its epoch floor.
struct ChildSpec {
  std::string name;
  std::function<std::vector<std::string>(int64_t restarts)> argv;
};

// Starts the daemons of one service and keeps them running. One that died is
// restarted: at once, or, if it keeps dying within a minute of its start, after
// 0.1 s, 0.2 s, ... 30 s. After 3 deaths in 60 s the whole set is restarted.
// One that is stopped (SIGSTOP) and does not go on in time is killed, and so
// has died. Everything happens inside its calls, on the one thread that made
// it.
class Launcher {
 public:
  struct Options {
    double stopped_seconds = 10;  // How long a child may be stopped.
    Waker* waker = nullptr;       // Ends a Poll early. Outlives the launcher.
  };

  // `on_line`: each line that a child writes to stderr.
  Launcher(std::vector<ChildSpec> specs, const Clock& clock,
           std::function<void(const std::string& name, absl::string_view line)>
               on_line,
           const Options& options);
  ~Launcher();

  absl::Status StartAll();

  // Reads lines, reaps, kills what is stopped and starts what is due, for up to
  // `timeout_ms`, or until the waker is woken. The first child that has died
  // since, with how; it is not restarted yet.
  struct Death {
    size_t child = 0;
    std::string name;
    std::string how;
  };
  std::optional<Death> Poll(int timeout_ms);

  // What to do after a death in service: its start, or everybody's, is due at
  // once or later.
  void RestartAfter(const Death& death);

  // This child's death is nothing to restart any more.
  void Retire(size_t child) { children_[child].retired = true; }

  // To one that runs; else nothing.
  void Signal(size_t child, int number) const;
  void SignalAll(int number) const;
  bool running(size_t child) const;
  bool any_running() const;

  // Ends all, and starts none again: SIGTERM, and SIGINT, which makes it the
  // second signal of each: an end without delay; SIGKILL to what is left after
  // `grace_seconds`. No child is running on return.
  void StopAll(double grace_seconds);

  // -1 while it does not run.
  pid_t pid(size_t child) const {
    return running(child) ? children_[child].process->pid() : -1;
  }

 private:
  static constexpr double kNever = 1e300;

  struct Child {
    std::optional<ChildProcess> process = {};
    bool retired = false;
    bool stopped = false;
    double stopped_at_seconds = 0;
    double started_seconds = 0;
    double due_seconds = kNever;  // Of its next start.
    int64_t quick_deaths = 0;     // One after another.
  };

  absl::Status StartOne(size_t child);
  void StartDue();
  void KillStopped(size_t child);
  // Waits for news of any child, or until `until_seconds`.
  void Wait(double until_seconds);
  double CountDeath(Child& child) const;
  std::optional<Death> Look(size_t child);

  const std::vector<ChildSpec> specs_;
  const Clock& clock_;
  const std::function<void(const std::string&, absl::string_view)> on_line_;
  const Options options_;
  std::vector<Child> children_;
  std::deque<double> deaths_seconds_;  // Of the last minute.
  int64_t restarts_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_LAUNCHER_H_
