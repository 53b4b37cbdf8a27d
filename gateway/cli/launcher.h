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

namespace phalanx {

// One daemon of a service: its name in messages and how to start it. `argv`
// gets the number of restarts so far, which a worker needs as its epoch floor.
struct ChildSpec {
  std::string name;
  std::function<std::vector<std::string>(int64_t restarts)> argv;
};

// Starts the daemons of one service and keeps them running: restarts the one
// that died, and the whole set after 3 deaths in 60 s. Everything happens
// inside its calls, on the one thread that made it.
class Launcher {
 public:
  // `on_line`: each line that a child writes to stderr.
  Launcher(std::vector<ChildSpec> specs, const Clock& clock,
           std::function<void(const std::string& name, absl::string_view line)>
               on_line);
  ~Launcher();

  absl::Status StartAll();

  // Reads lines and reaps, for up to `timeout_ms`. The first child that has
  // died since, with how; it is not restarted yet.
  struct Death {
    size_t child = 0;
    std::string name;
    std::string how;
  };
  std::optional<Death> Poll(int timeout_ms);

  // What to do after a death in service.
  absl::Status RestartAfter(const Death& death);

  // SIGTERM to all, in order of `specs`; SIGKILL to what is left after
  // `grace_seconds`. No child is running on return.
  void StopAll(double grace_seconds);

  pid_t pid(size_t child) const { return children_[child].pid(); }

 private:
  absl::Status StartOne(size_t child);

  const std::vector<ChildSpec> specs_;
  const Clock& clock_;
  const std::function<void(const std::string&, absl::string_view)> on_line_;
  std::vector<ChildProcess> children_;
  std::deque<double> deaths_seconds_;  // Of the last minute.
  int64_t restarts_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_LAUNCHER_H_
