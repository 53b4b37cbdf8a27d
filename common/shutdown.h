#ifndef PHALANX_COMMON_SHUTDOWN_H_
#define PHALANX_COMMON_SHUTDOWN_H_

#include <atomic>
#include <functional>
#include <thread>

namespace phalanx {

// Turns SIGTERM, SIGINT and SIGQUIT into calls on a thread, where anything is
// allowed.
//
// Made first thing in main, before any other thread, since it blocks the
// signals for the process. SIGPIPE is ignored from then on.
class ShutdownSignals {
 public:
  // `on_signal` gets 1 for the first SIGTERM or SIGINT, 2 for the second, ...
  // `on_quit` is called for each SIGQUIT, which is counted nowhere: the process
  // tells how it is and lives on. Without `on_quit` a SIGQUIT does what it does
  // to any process. Both run on one thread of this object and must not block
  // for long.
  explicit ShutdownSignals(std::function<void(int count)> on_signal,
                           std::function<void()> on_quit = nullptr);
  ~ShutdownSignals();
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;

 private:
  std::function<void(int)> on_signal_;
  std::function<void()> on_quit_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// In a child between fork and exec: the signal mask of a fresh process.
void UnblockShutdownSignals();

}  // namespace phalanx

#endif  // PHALANX_COMMON_SHUTDOWN_H_
