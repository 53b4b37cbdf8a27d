#include "gateway/cli/file_digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/units.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = kMiB;
// More readers than this wait for the disk, not for each other.
constexpr size_t kMaxThreads = 16;
constexpr std::chrono::milliseconds kProgressPeriod{100};

std::string HexDigest(EVP_MD_CTX* context) {
  std::string hash(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  CHECK(EVP_DigestFinal_ex(context,
                           reinterpret_cast<unsigned char*>(hash.data()),
                           &size) == 1);
  return absl::BytesToHexString(absl::string_view(hash.data(), size));
}

// Adds to `done` what it has read, as it goes.
absl::StatusOr<std::string> DigestFile(const std::string& path,
                                       std::atomic<int64_t>& done) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return absl::PermissionDeniedError(
        absl::StrCat("cannot be opened: ", std::strerror(errno)));
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), EVP_MD_CTX_free);
  CHECK(context != nullptr);
  CHECK(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  const auto buffer = std::make_unique<char[]>(kReadBytes);
  ssize_t n = 0;
  while ((n = read(fd, buffer.get(), kReadBytes)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    CHECK(EVP_DigestUpdate(context.get(), buffer.get(), n) == 1);
    done.fetch_add(n, std::memory_order_relaxed);
  }
  const int error = errno;
  close(fd);
  if (n < 0)
    return absl::DataLossError(
        absl::StrCat("cannot be read: ", std::strerror(error)));
  return HexDigest(context.get());
}

// Files that wait, and what has become of those that do not any more.
class Work {
 public:
  Work(std::string folder, const std::vector<std::string>& names)
      : folder_(std::move(folder)) {
    for (const std::string& name : names) {
      std::error_code error;
      const auto size = fs::file_size(PathOf(name), error);
      const int64_t bytes = error ? 0 : static_cast<int64_t>(size);
      waiting_.emplace_back(bytes, name);
      total_bytes_ += bytes;
    }
    left_ = waiting_.size();
    std::sort(waiting_.begin(), waiting_.end());  // Taken from the end.
  }

  // One of the threads: until no file waits.
  void Run() {
    while (true) {
      std::string name;
      {
        MutexLock lock(mutex_);
        if (waiting_.empty()) return;
        name = std::move(waiting_.back().second);
        waiting_.pop_back();
      }
      absl::StatusOr<std::string> digest =
          DigestFile(PathOf(name), done_bytes_);
      MutexLock lock(mutex_);
      digests_.emplace(std::move(name), std::move(digest));
      if (--left_ == 0) all_done_.SignalAll();
    }
  }

  // True once every file is done; waits a tenth of a second for it.
  bool WaitAWhile() {
    MutexLock lock(mutex_);
    return all_done_.WaitFor(mutex_, kProgressPeriod,
                             [this] { return left_ == 0; });
  }

  int64_t done_bytes() const { return done_bytes_.load(); }
  int64_t total_bytes() const { return total_bytes_; }
  auto TakeDigests() {
    MutexLock lock(mutex_);
    return std::move(digests_);
  }

 private:
  std::string PathOf(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  const std::string folder_;
  int64_t total_bytes_ = 0;
  std::atomic<int64_t> done_bytes_{0};
  Mutex mutex_;
  CondVar all_done_;
  std::vector<std::pair<int64_t, std::string>> waiting_
      ABSL_GUARDED_BY(mutex_);  // Bytes, name.
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, absl::StatusOr<std::string>> digests_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

FileDigests DigestFiles(
    const std::string& folder, const std::vector<std::string>& names,
    const std::function<void(const ReadProgress&)>& on_progress) {
  MonotonicClock clock;
  const double started = clock.now_seconds();
  Work work(folder, names);
  const size_t cpus = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads(std::min({names.size(), cpus, kMaxThreads}));
  for (std::thread& thread : threads)
    thread = std::thread([&work] { work.Run(); });
  const auto progress = [&] {
    return ReadProgress{.done_bytes = work.done_bytes(),
                        .total_bytes = work.total_bytes(),
                        .seconds = clock.now_seconds() - started};
  };
  while (!work.WaitAWhile()) on_progress(progress());
  for (std::thread& thread : threads) thread.join();
  return {.digests = work.TakeDigests(), .read = progress()};
}

}  // namespace phalanx
