#include "worker/collective/peer_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace phalanx {
namespace {

// Field 22 of /proc/<pid>/stat; nullopt if there is no such process.
std::optional<uint64_t> StartTicks(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", static_cast<int>(pid));
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return std::nullopt;
  char text[1024];
  const size_t length = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  text[length] = '\0';
  // The name in field 2 may hold spaces and brackets; the last bracket ends it.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr) return std::nullopt;
  unsigned long long ticks = 0;
  if (std::sscanf(at + 1,
                  " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                  "%*s %*s %*s %*s %*s %llu",
                  &ticks) != 1)
    return std::nullopt;
  return ticks;
}

}  // namespace

ProcessId OwnProcessId() {
  const pid_t pid = getpid();
  return {.pid = pid, .start_ticks = StartTicks(pid).value_or(0)};
}

PeerWatch::~PeerWatch() {
  for (const int fd : fds_)
    if (fd >= 0) close(fd);
}

absl::Status PeerWatch::Add(int rank, ProcessId process) {
  CHECK(rank >= 0 && rank < kMaxRanks && fds_[rank] < 0);
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (fd < 0 && errno != ESRCH)
    return absl::InternalError(absl::StrCat(
        "pidfd_open of process ", process.pid, ": ", std::strerror(errno)));
  // Read after the open: if the start is right now, the descriptor is of that
  // process and no later one of the same id.
  if (fd < 0 || StartTicks(process.pid).value_or(0) != process.start_ticks) {
    if (fd >= 0) close(fd);
    return absl::NotFoundError(
        absl::StrCat("process ", process.pid, " has ended"));
  }
  fds_[rank] = fd;
  return absl::OkStatus();
}

int PeerWatch::FirstDead() const {
  std::array<pollfd, kMaxRanks> polled;
  for (int rank = 0; rank < kMaxRanks; ++rank)
    polled[rank] = {.fd = fds_[rank], .events = POLLIN, .revents = 0};
  if (poll(polled.data(), polled.size(), 0) <= 0) return -1;
  for (int rank = 0; rank < kMaxRanks; ++rank)
    if ((polled[rank].revents & POLLIN) != 0) return rank;
  return -1;
}

}  // namespace phalanx
