#include "worker/collective/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"

namespace phalanx {
namespace {

// "phalanx" and the version of the layout.
constexpr uint64_t kMagic = 0x7068616c616e7803;
constexpr char kNamePrefix[] = "/phalanx-";
constexpr size_t kMaxNameBytes = 100;

size_t LinesOffset() { return sizeof(SegmentHeader); }
size_t RecordsOffset(int size) {
  return LinesOffset() + size * sizeof(RankLine);
}
size_t SlotsOffset(int size) {
  // On a page of their own.
  constexpr size_t kPageBytes = 4096;
  const size_t end = RecordsOffset(size) + size * sizeof(RankRecord);
  return (end + kPageBytes - 1) / kPageBytes * kPageBytes;
}
size_t TotalBytes(const ShmSegment::Shape& shape) {
  return SlotsOffset(shape.size) + size_t{2} * shape.size * shape.slot_bytes;
}

absl::Status SystemError(absl::StatusCode code, const std::string& name,
                         const char* call, int error) {
  return absl::Status(code, absl::StrCat("segment ", name, ": ", call, ": ",
                                         std::strerror(error)));
}

// Closes a descriptor at the end of the block.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Populated, so that no step pays for first touches.
absl::StatusOr<char*> Map(int fd, size_t bytes, const std::string& name) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED)
    return SystemError(absl::StatusCode::kResourceExhausted, name, "mmap",
                       errno);
  return static_cast<char*>(memory);
}

// Gives the new file its memory and maps it.
absl::StatusOr<char*> Allocate(int fd, size_t bytes, const std::string& name) {
  // The size first: others see either none or all of it. Then the memory, so
  // that a full /dev/shm is an error here and not a SIGBUS later.
  if (fchmod(fd, 0600) != 0 || ftruncate(fd, bytes) != 0)
    return SystemError(absl::StatusCode::kInternal, name, "ftruncate", errno);
  const int error = posix_fallocate(fd, 0, bytes);
  if (error != 0)
    return SystemError(absl::StatusCode::kResourceExhausted, name,
                       absl::StrCat("no room for ", bytes, " bytes").c_str(),
                       error);
  return Map(fd, bytes, name);
}

absl::Status CheckFile(int fd, const ShmSegment::Shape& shape,
                       const std::string& name) {
  struct stat file;
  if (fstat(fd, &file) != 0)
    return SystemError(absl::StatusCode::kInternal, name, "fstat", errno);
  if (file.st_uid != geteuid() || (file.st_mode & 0077) != 0)
    return absl::PermissionDeniedError(absl::StrFormat(
        "segment %s has owner %d and mode %o; must be ours and 600", name,
        file.st_uid, file.st_mode & 07777));
  if (file.st_size == 0)
    return absl::UnavailableError(
        absl::StrCat("segment ", name, " is not filled yet"));
  if (file.st_size != static_cast<off_t>(TotalBytes(shape)))
    return absl::FailedPreconditionError(absl::StrCat(
        "segment ", name, " is ", file.st_size, " bytes; size ", shape.size,
        " and slot_bytes ", shape.slot_bytes, " need ", TotalBytes(shape)));
  return absl::OkStatus();
}

absl::Status CheckHeader(const SegmentHeader& header,
                         const ShmSegment::Shape& shape,
                         const std::string& name) {
  const uint64_t magic = header.magic.load();
  if (magic == 0)
    return absl::UnavailableError(
        absl::StrCat("segment ", name, " is not filled yet"));
  if (magic != kMagic)
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", name, " is of another version"));
  if (header.epoch != shape.epoch)
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", name, " is of epoch ", header.epoch,
                     "; this rank's is ", shape.epoch));
  if (header.size != static_cast<uint32_t>(shape.size) ||
      header.slot_bytes != static_cast<uint64_t>(shape.slot_bytes))
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", name, " has size ", header.size,
                     " and slot_bytes ", header.slot_bytes, "; this rank has ",
                     shape.size, " and ", shape.slot_bytes));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShmSegment>> ShmSegment::Create(
    const std::string& name, const Shape& shape) {
  const OpenFile file(shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  if (file.fd() < 0)
    return SystemError(errno == EEXIST ? absl::StatusCode::kAlreadyExists
                                       : absl::StatusCode::kInternal,
                       name, "shm_open", errno);
  absl::StatusOr<char*> memory = Allocate(file.fd(), TotalBytes(shape), name);
  if (!memory.ok()) {
    RemoveSegmentName(name);
    return memory.status();
  }
  std::unique_ptr<ShmSegment> segment(new ShmSegment(name, shape, *memory));
  segment->set_answers_for_name(true);
  // The file is zeros, which is right for every word but these.
  SegmentHeader& header = segment->header();
  header.epoch = shape.epoch;
  header.size = static_cast<uint32_t>(shape.size);
  header.slot_bytes = static_cast<uint64_t>(shape.slot_bytes);
  header.magic.store(kMagic);
  return segment;
}

absl::StatusOr<std::unique_ptr<ShmSegment>> ShmSegment::Open(
    const std::string& name, const Shape& shape) {
  const OpenFile file(shm_open(name.c_str(), O_RDWR, 0));
  if (file.fd() < 0)
    return SystemError(errno == ENOENT ? absl::StatusCode::kUnavailable
                                       : absl::StatusCode::kPermissionDenied,
                       name, "shm_open", errno);
  absl::Status checked = CheckFile(file.fd(), shape, name);
  if (!checked.ok()) return checked;
  absl::StatusOr<char*> memory = Map(file.fd(), TotalBytes(shape), name);
  if (!memory.ok()) return memory.status();
  std::unique_ptr<ShmSegment> segment(new ShmSegment(name, shape, *memory));
  checked = CheckHeader(segment->header(), shape, name);
  if (!checked.ok()) return checked;
  return segment;
}

ShmSegment::ShmSegment(std::string name, const Shape& shape, char* memory)
    : name_(std::move(name)), shape_(shape), memory_(memory) {}

ShmSegment::~ShmSegment() {
  if (answers_for_name_) RemoveSegmentName(name_);
  munmap(memory_, TotalBytes(shape_));
}

void ShmSegment::Unlink() {
  RemoveSegmentName(name_);
  answers_for_name_ = false;
}

SegmentHeader& ShmSegment::header() const {
  return *std::launder(reinterpret_cast<SegmentHeader*>(memory_));
}

RankLine& ShmSegment::line(int rank) const {
  DCHECK(rank >= 0 && rank < shape_.size);
  return std::launder(
      reinterpret_cast<RankLine*>(memory_ + LinesOffset()))[rank];
}

RankRecord& ShmSegment::record(int rank) const {
  DCHECK(rank >= 0 && rank < shape_.size);
  return std::launder(reinterpret_cast<RankRecord*>(
      memory_ + RecordsOffset(shape_.size)))[rank];
}

char* ShmSegment::slot(int rank, int parity) const {
  DCHECK(rank >= 0 && rank < shape_.size);
  return memory_ + SlotsOffset(shape_.size) +
         (size_t{2} * rank + parity) * shape_.slot_bytes;
}

std::string NewSegmentName(uint64_t epoch) {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  return absl::StrFormat("%s%d-%d-%016x", kNamePrefix, getpid(), epoch, number);
}

void RemoveSegmentName(const std::string& name) {
  // Gone already is as good.
  shm_unlink(name.c_str());
}

absl::Status CheckSegmentName(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (name.size() > kMaxNameBytes || !name.starts_with(kNamePrefix) ||
      !std::all_of(name.begin() + 1, name.end(), allowed))
    return absl::InvalidArgumentError(absl::StrCat(
        "segment name \"", name.substr(0, kMaxNameBytes), "\" must be ",
        kNamePrefix, "... in lower-case letters, digits and dashes"));
  return absl::OkStatus();
}

}  // namespace phalanx
