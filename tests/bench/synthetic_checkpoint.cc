#include "tests/bench/synthetic_checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"
#include "common/mutex.h"
#include "common/status.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kPieceBytes = int64_t{4} << 20;
// For what stands beside the weights: headers, index, configuration.
constexpr int64_t kOtherBytes = int64_t{64} << 20;

absl::Status CannotWrite(const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat(path, " cannot be written: ", std::strerror(errno)));
}

// Closes what it holds.
class File {
 public:
  // UNAVAILABLE with the system's reason, as all that is written.
  static absl::StatusOr<File> Create(const std::string& path) {
    const int fd =
        open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) return CannotWrite(path);
    return File(path, fd);
  }
  File(File&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }

  // All of it.
  absl::Status Write(int64_t at, const void* data, size_t bytes) const {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t wrote = pwrite(fd_, from, bytes, at);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return CannotWrite(path_);
      from += wrote;
      at += wrote;
      bytes -= static_cast<size_t>(wrote);
    }
    return absl::OkStatus();
  }

 private:
  File(const std::string& path, int fd) : path_(path), fd_(fd) {}

  std::string path_;
  int fd_;
};

// Which tensors are in which file: first and one past the last.
struct Shard {
  std::string name;
  size_t begin = 0;
  size_t end = 0;
};

std::vector<Shard> CutIntoShards(const std::vector<SyntheticTensor>& tensors,
                                 int64_t shard_bytes) {
  std::vector<Shard> shards;
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i == 0 || bytes + tensors[i].bytes > shard_bytes) {
      shards.push_back({.name = "", .begin = i});
      bytes = 0;
    }
    shards.back().end = i + 1;
    bytes += tensors[i].bytes;
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : absl::StrFormat("model-%05d-of-%05d.safetensors",
                                           i + 1, shards.size());
  return shards;
}

std::string HeaderOf(const std::vector<SyntheticTensor>& tensors,
                     const Shard& shard) {
  json header;
  int64_t begin = 0;
  for (size_t i = shard.begin; i < shard.end; ++i) {
    const SyntheticTensor& tensor = tensors[i];
    header[tensor.name] = {{"dtype", std::string(StoredTypeName(tensor.type))},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, begin + tensor.bytes}}};
    begin += tensor.bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text;
}

std::string IndexOf(const std::vector<SyntheticTensor>& tensors,
                    const std::vector<Shard>& shards, int64_t total) {
  json index;
  index["metadata"] = {{"total_size", total}};
  for (const Shard& shard : shards)
    for (size_t i = shard.begin; i < shard.end; ++i)
      index["weight_map"][tensors[i].name] = shard.name;
  return index.dump(1);
}

// Part of a tensor, and where it stands.
struct Piece {
  const SyntheticTensor* tensor = nullptr;
  const NumberTable* numbers = nullptr;
  size_t file = 0;
  int64_t file_offset = 0;
  int64_t begin = 0;  // Bytes of the tensor before it.
  int64_t bytes = 0;
};

// Cuts tensors into pieces and writes them, by as many threads as there are.
class Writer {
 public:
  Writer(const std::vector<SyntheticTensor>& tensors, uint64_t seed,
         const SyntheticWriting& writing)
      : tensors_(tensors), seed_(seed), writing_(writing) {}

  absl::Status WriteShards(const std::string& folder,
                           const std::vector<Shard>& shards) {
    for (const Shard& shard : shards) {
      ASSIGN_OR_RETURN(File file,
                       File::Create(absl::StrCat(folder, "/", shard.name)));
      files_.push_back(std::move(file));
      const std::string header = HeaderOf(tensors_, shard);
      RETURN_IF_ERROR(files_.back().Write(0, header.data(), header.size()));
      CutShard(shard, static_cast<int64_t>(header.size()));
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < writing_.threads; ++i)
      threads.emplace_back([this] { WritePieces(); });
    for (std::thread& thread : threads) thread.join();
    const MutexLock lock(mutex_);
    return error_;
  }

 private:
  void CutShard(const Shard& shard, int64_t at) {
    for (size_t i = shard.begin; i < shard.end; ++i) {
      const SyntheticTensor& tensor = tensors_[i];
      total_ += tensor.bytes;
      const NumberTable& numbers =
          tables_
              .try_emplace(std::pair(tensor.law, tensor.type), tensor.law,
                           tensor.type)
              .first->second;
      for (int64_t begin = 0; begin < tensor.bytes; begin += kPieceBytes) {
        const int64_t bytes = std::min(kPieceBytes, tensor.bytes - begin);
        pieces_.push_back({.tensor = &tensor,
                           .numbers = &numbers,
                           .file = files_.size() - 1,
                           .file_offset = at,
                           .begin = begin,
                           .bytes = bytes});
        at += bytes;
      }
    }
  }

  void WritePieces() {
    std::vector<std::byte> buffer(kPieceBytes);
    for (size_t i = next_++; i < pieces_.size() && !failed_; i = next_++) {
      const Piece& piece = pieces_[i];
      const auto bytes = static_cast<size_t>(piece.bytes);
      piece.numbers->Fill(
          NumberKey(seed_, piece.tensor->name),
          piece.begin * ElementsOf(*piece.tensor) / piece.tensor->bytes,
          std::span(buffer).first(bytes));
      const absl::Status status =
          files_[piece.file].Write(piece.file_offset, buffer.data(), bytes);
      const MutexLock lock(mutex_);
      if (!status.ok()) {
        error_ = status;
        failed_ = true;
        return;
      }
      done_ += piece.bytes;
      if (writing_.on_progress) writing_.on_progress(done_, total_);
    }
  }

  static int64_t ElementsOf(const SyntheticTensor& tensor) {
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= size;
    return elements;
  }

  const std::vector<SyntheticTensor>& tensors_;
  const uint64_t seed_;
  const SyntheticWriting& writing_;
  std::map<std::pair<NumberLaw, StoredType>, NumberTable> tables_;
  std::vector<File> files_;
  std::vector<Piece> pieces_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  int64_t total_ = 0;
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status PrepareFolder(const std::string& folder, int64_t needed) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat(folder, " cannot be made: ", error.message()));
  const bool is_empty = fs::is_empty(folder, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat(folder, " cannot be read: ", error.message()));
  if (!is_empty)
    return absl::AlreadyExistsError(
        absl::StrCat(folder, " has files; must be new or empty"));
  const fs::space_info space = fs::space(folder, error);
  const auto free = static_cast<int64_t>(space.available);
  if (!error && free < needed)
    return absl::ResourceExhaustedError(
        absl::StrCat(folder, " has ", FormatByteSize(free), " free; ",
                     FormatByteSize(needed), " are needed"));
  return absl::OkStatus();
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(const File file, File::Create(path));
  return file.Write(0, text.data(), text.size());
}

}  // namespace

absl::StatusOr<SyntheticFiles> WriteSyntheticCheckpoint(
    const SyntheticModel& model, const std::string& folder,
    const SyntheticWriting& writing) {
  ASSIGN_OR_RETURN(const std::string config_text, SyntheticConfigJson(model));
  ASSIGN_OR_RETURN(const ModelConfig config, ParseModelConfig(config_text));
  const std::vector<SyntheticTensor> tensors = ListSyntheticTensors(config);
  SyntheticFiles made{.tensors = static_cast<int>(tensors.size())};
  for (const SyntheticTensor& tensor : tensors)
    made.weight_bytes += tensor.bytes;
  RETURN_IF_ERROR(PrepareFolder(folder, made.weight_bytes + kOtherBytes));
  const std::vector<Shard> shards = CutIntoShards(tensors, writing.shard_bytes);
  made.files = static_cast<int>(shards.size());
  RETURN_IF_ERROR(
      Writer(tensors, model.seed, writing).WriteShards(folder, shards));
  if (shards.size() > 1)
    RETURN_IF_ERROR(
        WriteText(absl::StrCat(folder, "/model.safetensors.index.json"),
                  IndexOf(tensors, shards, made.weight_bytes)));
  RETURN_IF_ERROR(WriteText(absl::StrCat(folder, "/config.json"), config_text));
  return made;
}

}  // namespace phalanx
