#include "worker/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

absl::StatusOr<std::span<const std::byte>> MapOpenFile(
    int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0)
    return absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a regular file"));
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return std::span<const std::byte>();
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED)
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": mapping ", size, " bytes: ", strerror(errno)));
  return std::span<const std::byte>(static_cast<std::byte*>(data), size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(
    const std::string& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const std::string message = absl::StrCat(path, ": ", strerror(errno));
    if (errno == ENOENT || errno == ENOTDIR)
      return absl::NotFoundError(message);
    return absl::InvalidArgumentError(message);
  }
  const auto bytes = MapOpenFile(fd, path);
  close(fd);
  if (!bytes.ok()) return bytes.status();
  return std::unique_ptr<MappedFile>(new MappedFile(path, *bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty())
    munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::DropPages(std::span<const std::byte> bytes) {
  // Whole pages only: neighbours may still be wanted.
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + bytes.size()) / page * page;
  if (first < last)
    madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

void MappedFile::WillNeedPages(std::span<const std::byte> bytes) {
  // Linux reads ahead at most one window of the device for each hint, 128 KiB
  // unless set otherwise, and forgets the rest.
  constexpr uintptr_t kStep = uintptr_t{128} << 10;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t end = begin + bytes.size();
  for (uintptr_t at = begin / page * page; at < end; at += kStep)
    madvise(reinterpret_cast<void*>(at), std::min(kStep, end - at),
            MADV_WILLNEED);
}

}  // namespace phalanx
