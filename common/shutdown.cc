#include "common/shutdown.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "common/check.h"

namespace phalanx {
namespace {

// SIGUSR2 is how the destructor ends the waiting thread.
sigset_t WaitedSignals(bool with_quit) {
  sigset_t set;
  sigemptyset(&set);
  if (with_quit) sigaddset(&set, SIGQUIT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR2);
  return set;
}

}  // namespace

ShutdownSignals::ShutdownSignals(std::function<void(int)> on_signal,
                                 std::function<void()> on_quit)
    : on_signal_(std::move(on_signal)), on_quit_(std::move(on_quit)) {
  const sigset_t set = WaitedSignals(on_quit_ != nullptr);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this, set] {
    int count = 0;
    while (true) {
      int number = 0;
      CHECK(sigwait(&set, &number) == 0);
      // A stranger may send it too.
      if (number == SIGUSR2 && ending_.load()) return;
      if (number == SIGUSR2) continue;
      if (number == SIGQUIT) {
        on_quit_();
      } else {
        on_signal_(++count);
      }
    }
  });
}

ShutdownSignals::~ShutdownSignals() {
  ending_.store(true);
  pthread_kill(thread_.native_handle(), SIGUSR2);
  thread_.join();
}

void UnblockShutdownSignals() {
  const sigset_t set = WaitedSignals(/*with_quit=*/true);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace phalanx
