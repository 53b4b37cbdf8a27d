#include "gateway/cli/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/shutdown.h"

namespace phalanx {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 10;
// Of one call of ReadLines: more than a pipe holds, so that what a dead child
// left is read whole, and an end for one that never stops writing.
constexpr size_t kMaxReadBytes = size_t{256} << 10;

// Between fork and exec: only what is safe there.
[[noreturn]] void BecomeChild(char* const* argv, pid_t parent, int pipe_in) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // The parent died before the line above.
  setpgid(0, 0);
  UnblockShutdownSignals();
  dup2(pipe_in, STDERR_FILENO);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  execv(argv[0], argv);
  dprintf(STDERR_FILENO, "%s cannot be run: %s\n", argv[0], strerror(errno));
  _exit(127);
}

}  // namespace

std::string ProgramFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored)
      .parent_path()
      .string();
}

absl::StatusOr<ChildProcess> ChildProcess::Start(
    const std::vector<std::string>& argv) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::ResourceExhaustedError(
        absl::StrCat("no pipe for ", argv[0], ": ", strerror(errno)));
  std::vector<char*> raw;
  for (const std::string& word : argv)
    raw.push_back(const_cast<char*>(word.c_str()));
  raw.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) BecomeChild(raw.data(), parent, ends[1]);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return absl::ResourceExhaustedError(
        absl::StrCat("no process for ", argv[0], ": ", strerror(errno)));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  ChildProcess child;
  child.pid_ = pid;
  child.pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  child.stderr_fd_ = ends[0];
  return child;
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(stderr_fd_, other.stderr_fd_);
  std::swap(partial_, other.partial_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (pidfd_ >= 0) close(pidfd_);
  if (stderr_fd_ >= 0) close(stderr_fd_);
}

void ChildProcess::ReadLines(
    const std::function<void(absl::string_view)>& line) {
  char chunk[4096];
  for (size_t taken = 0; stderr_fd_ >= 0 && taken < kMaxReadBytes;) {
    const ssize_t n = read(stderr_fd_, chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      close(stderr_fd_);
      stderr_fd_ = -1;
      if (!partial_.empty()) line(std::exchange(partial_, ""));
      return;
    }
    taken += n;
    partial_.append(chunk, n);
    SplitLines(line);
  }
}

void ChildProcess::SplitLines(
    const std::function<void(absl::string_view)>& line) {
  size_t begin = 0;
  for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    line(absl::string_view(partial_).substr(begin, end - begin));
  partial_.erase(0, begin);
  if (partial_.size() >= kMaxLineBytes) line(std::exchange(partial_, ""));
}

void ChildProcess::Signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

ChildProcess::Change ChildProcess::Look(std::string& how) {
  if (pid_ <= 0) return Change::kEnded;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) != pid_)
    return Change::kNone;
  if (WIFSTOPPED(status)) return Change::kStopped;
  if (WIFCONTINUED(status)) return Change::kContinued;
  how = WIFEXITED(status) ? absl::StrCat("exit code ", WEXITSTATUS(status))
                          : absl::StrCat("signal ", WTERMSIG(status), " (",
                                         strsignal(WTERMSIG(status)), ")");
  pid_ = -1;
  close(std::exchange(pidfd_, -1));
  return Change::kEnded;
}

}  // namespace phalanx
