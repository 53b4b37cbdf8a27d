#ifndef PHALANX_GATEWAY_CLI_INTERRUPT_H_
#define PHALANX_GATEWAY_CLI_INTERRUPT_H_

#include <functional>
#include <thread>

namespace phalanx {

// The exit code of a verb that Ctrl-C ended: 128 + SIGINT.
inline constexpr int kInterruptedExitCode = 130;

// Turns SIGINT into calls on a thread, where anything is allowed. Other signals
// end the process as ever; the service then sees its client go.
//
// Made before any other thread, since it blocks SIGINT for the process.
class Interrupt {
 public:
  // `on_interrupt` runs on a thread of this object and must not block for long.
  explicit Interrupt(std::function<void()> on_interrupt);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  void Watch();

  const std::function<void()> on_interrupt_;
  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_INTERRUPT_H_
