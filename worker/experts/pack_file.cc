#include "worker/experts/pack_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/status.h"
#include "common/units.h"
#include "worker/experts/file_lock.h"
#include "worker/experts/pack_writer.h"

namespace phalanx {
namespace {

absl::Status MakeFolder(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error)
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the folder ", dir, ": ", error.message()));
  return absl::OkStatus();
}

absl::Status Make(const std::string& path, const PackKey& key, int threads,
                  const PackExpert& pack) {
  LogInfo("experts", "packing",
          {{"path", path}, {"bytes", key.file_bytes()}, {"threads", threads}});
  const MonotonicClock clock;
  const double start = clock.now_seconds();
  RETURN_IF_ERROR(WritePack(path, key, threads, pack));
  LogInfo("experts", "packed",
          {{"path", path},
           {"bytes", key.file_bytes()},
           {"seconds", clock.now_seconds() - start}});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackFile>> PackFile::Open(
    const std::string& path, const PackKey& key) {
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  RETURN_IF_ERROR(CheckPack(file->bytes(), key));
  return std::unique_ptr<PackFile>(new PackFile(key, std::move(file)));
}

absl::StatusOr<std::unique_ptr<PackFile>> PackFile::OpenOrMake(
    const std::string& dir, const PackKey& key, int threads,
    const PackExpert& pack) {
  const std::string path = absl::StrCat(dir, "/", key.file_name());
  // Without the lock first: the folder may be read-only.
  auto there = Open(path, key);
  if (there.ok()) return there;
  RETURN_IF_ERROR(MakeFolder(dir));
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire(path + ".lock"));
  there = Open(path, key);  // Another process may have made it meanwhile.
  if (there.ok()) return there;
  if (!absl::IsNotFound(there.status())) {
    LogWarning("experts", "pack file is made again",
               {{"path", path}, {"reason", there.status().message()}});
    // Its room is needed; a process that has it mapped keeps it.
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  RETURN_IF_ERROR(Make(path, key, threads, pack));
  return Open(path, key);
}

const std::byte* PackFile::gate_up(int layer, int expert, int64_t part) const {
  CHECK(part >= 0 && part < key_.parts && expert >= 0 &&
        expert < key_.experts && layer >= 0 && layer < key_.layers);
  return file_->bytes().data() + key_.offset(layer, expert) +
         part * key_.part_bytes();
}

const std::byte* PackFile::down(int layer, int expert, int64_t part) const {
  return gate_up(layer, expert, part) +
         RoundUp(key_.gate_up.matrix_bytes, kPackAlignment);
}

void PackFile::WillNeed(int layer, int expert, int64_t part) const {
  MappedFile::WillNeedPages(
      {gate_up(layer, expert, part), static_cast<size_t>(key_.part_bytes())});
}

}  // namespace phalanx
