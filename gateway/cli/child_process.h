#ifndef PHALANX_GATEWAY_CLI_CHILD_PROCESS_H_
#define PHALANX_GATEWAY_CLI_CHILD_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// The folder of the running program, where those that it starts are, too.
std::string ProgramFolder();

// One child and the pipe that its stderr comes through. The child gets SIGKILL
// when the thread that started it dies, so a parent that is killed leaves
// nobody behind; it is in a process group of its own, so that Ctrl-C on a
// terminal reaches it only through the parent. One thread; move only.
class ChildProcess {
 public:
  // argv[0] is the program's path. RESOURCE_EXHAUSTED if there is no room for
  // one more process; a program that cannot be run ends with exit code 127.
  static absl::StatusOr<ChildProcess> Start(
      const std::vector<std::string>& argv);

  ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  // Ends the child with SIGKILL if it still runs.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0; }
  // For poll(2); -1 once the child has closed it.
  int stderr_fd() const { return stderr_fd_; }
  // For poll(2): readable once the child has ended; -1 if the kernel has none.
  int pidfd() const { return pidfd_; }

  // Reads what is there and calls `line` for each whole line, without its end;
  // the rest waits for more, or for the end of the pipe. Lines are cut at 64
  // KiB; a child that never stops writing does not hold this call.
  void ReadLines(const std::function<void(absl::string_view)>& line);

  void Signal(int number) const;

  // What has become of the child since the last look. Once it has ended, which
  // is also told later again, `how` says with what ("exit code 1", "signal 9").
  // Never waits.
  enum class Change { kNone, kStopped, kContinued, kEnded };
  Change Look(std::string& how);

 private:
  ChildProcess() = default;

  void SplitLines(const std::function<void(absl::string_view)>& line);

  pid_t pid_ = -1;
  int pidfd_ = -1;
  int stderr_fd_ = -1;
  std::string partial_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_CHILD_PROCESS_H_
