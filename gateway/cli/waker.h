#ifndef PHALANX_GATEWAY_CLI_WAKER_H_
#define PHALANX_GATEWAY_CLI_WAKER_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace phalanx {

// Ends another thread's poll(2) at once: a descriptor that can be read from the
// moment somebody has called Wake. Any thread.
class Waker {
 public:
  Waker() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Waker() { close(fd_); }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  int fd() const { return fd_; }

  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(fd_, &one, sizeof(one));
  }

  // True if Wake was called since the last Take.
  bool Take() {
    uint64_t count = 0;
    return read(fd_, &count, sizeof(count)) == sizeof(count);
  }

 private:
  const int fd_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_WAKER_H_
