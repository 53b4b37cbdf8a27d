#include "worker/experts/pack_writer.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status.h"

namespace phalanx {
namespace {

int64_t FreeBytes(const std::string& path) {
  struct statvfs info;
  const std::string folder = std::filesystem::path(path).parent_path();
  if (statvfs(folder.c_str(), &info) != 0) return -1;
  return static_cast<int64_t>(info.f_bavail) *
         static_cast<int64_t>(info.f_frsize);
}

// Fills and names one temporary; removes it unless it was named.
class PackWriter {
 public:
  PackWriter(const std::string& path, const PackKey& key)
      : path_(path), temporary_(path + ".tmp"), key_(key) {}
  ~PackWriter() {
    if (fd_ < 0) return;
    close(fd_);
    if (!named_) unlink(temporary_.c_str());
  }
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  absl::Status Reserve();
  absl::Status Fill(int threads, const PackExpert& pack);
  absl::Status Name();

 private:
  void FillShare(int thread, const PackExpert& pack);
  absl::Status Write(const void* data, int64_t bytes, int64_t offset);
  // What errno says, when `doing` so failed.
  absl::Status Failed(absl::string_view doing) const;
  absl::Status Full(int64_t free_bytes) const;

  const std::string path_;
  const std::string temporary_;
  const PackKey key_;
  int fd_ = -1;
  bool named_ = false;

  std::atomic<int64_t> next_{0};  // Of all experts of all layers.
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // The first that is not OK.
};

absl::Status PackWriter::Full(int64_t free_bytes) const {
  return absl::ResourceExhaustedError(
      absl::StrCat(temporary_, " needs ", key_.file_bytes(),
                   " bytes; free on its disk are ", free_bytes));
}

absl::Status PackWriter::Failed(absl::string_view doing) const {
  if (errno == ENOSPC || errno == EDQUOT) return Full(FreeBytes(path_));
  return absl::FailedPreconditionError(
      absl::StrCat("cannot ", doing, " ", temporary_, " (", key_.file_bytes(),
                   " bytes): ", strerror(errno)));
}

absl::Status PackWriter::Reserve() {
  fd_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) return Failed("make");
  // Said before an hour's work, not after it.
  const int64_t free_bytes = FreeBytes(path_);
  if (free_bytes >= 0 && free_bytes < key_.file_bytes())
    return Full(free_bytes);
  if (fallocate(fd_, 0, 0, key_.file_bytes()) == 0) return absl::OkStatus();
  // Not every file system can; there the writes themselves will tell.
  if (errno == EOPNOTSUPP || errno == ENOSYS) return absl::OkStatus();
  return Failed("reserve");
}

absl::Status PackWriter::Write(const void* data, int64_t bytes,
                               int64_t offset) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(fd_, at, static_cast<size_t>(bytes), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write");
    at += written;
    offset += written;
    bytes -= written;
  }
  return absl::OkStatus();
}

void PackWriter::FillShare(int thread, const PackExpert& pack) {
  std::vector<std::byte> parts(static_cast<size_t>(key_.expert_bytes()));
  const int64_t count = key_.layers * key_.experts;
  for (int64_t i = next_++; i < count; i = next_++) {
    const int64_t layer = i / key_.experts;
    const int64_t expert = i % key_.experts;
    pack(thread, static_cast<int>(layer), static_cast<int>(expert), parts);
    const absl::Status status =
        Write(parts.data(), key_.expert_bytes(), key_.offset(layer, expert));
    if (status.ok()) continue;
    MutexLock lock(mutex_);
    status_.Update(status);
    next_ = count;
  }
}

absl::Status PackWriter::Fill(int threads, const PackExpert& pack) {
  std::vector<std::thread> fillers;
  try {
    for (int i = 1; i < threads; ++i)
      fillers.emplace_back([this, i, &pack] { FillShare(i, pack); });
  } catch (const std::system_error&) {
    // Fewer will do.
  }
  FillShare(0, pack);
  for (std::thread& filler : fillers) filler.join();
  MutexLock lock(mutex_);
  return status_;
}

absl::Status PackWriter::Name() {
  const std::string header = PackHeader(key_);
  RETURN_IF_ERROR(Write(header.data(), kPackHeaderBytes, 0));
  if (fsync(fd_) != 0) return Failed("flush");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return Failed("rename");
  named_ = true;
  // So that the name survives a power cut too; no reason to fail.
  const std::string folder = std::filesystem::path(path_).parent_path();
  const int folder_fd =
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd >= 0) {
    fsync(folder_fd);
    close(folder_fd);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WritePack(const std::string& path, const PackKey& key, int threads,
                       const PackExpert& pack) {
  PackWriter writer(path, key);
  RETURN_IF_ERROR(writer.Reserve());
  RETURN_IF_ERROR(writer.Fill(threads, pack));
  return writer.Name();
}

}  // namespace phalanx
