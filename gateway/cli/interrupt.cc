#include "gateway/cli/interrupt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "common/check.h"

namespace phalanx {

Interrupt::Interrupt(std::function<void()> on_interrupt)
    : on_interrupt_(std::move(on_interrupt)) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  CHECK(signal_fd_ >= 0 && stop_fd_ >= 0);
  thread_ = std::thread([this] { Watch(); });
}

Interrupt::~Interrupt() {
  const uint64_t one = 1;
  CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  close(stop_fd_);
  close(signal_fd_);
}

void Interrupt::Watch() {
  while (true) {
    pollfd fds[] = {{.fd = signal_fd_, .events = POLLIN, .revents = 0},
                    {.fd = stop_fd_, .events = POLLIN, .revents = 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) on_interrupt_();
  }
}

}  // namespace phalanx
