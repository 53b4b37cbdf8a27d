#include "worker/quantise/checkpoint_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/status.h"
#include "common/units.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/quantise/disk_error.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

// Where data may begin.
constexpr int64_t kDataAlignment = 64;

// The header's length, then its JSON, padded so that data is aligned.
std::string HeadOf(const Json& header) {
  std::string json = header.dump();
  const auto bytes = static_cast<int64_t>(json.size()) + 8;
  json.append(static_cast<size_t>(RoundUp(bytes, kDataAlignment) - bytes), ' ');
  std::string head;
  const uint64_t length = json.size();
  for (int i = 0; i < 8; ++i)
    head.push_back(static_cast<char>(length >> (8 * i) & 0xff));
  return head + json;
}

Json EntryOf(const OutputTensor& tensor, int64_t begin) {
  return {{"dtype", std::string(StoredTypeName(tensor.type))},
          {"shape", tensor.shape},
          {"data_offsets", {begin, begin + tensor.bytes()}}};
}

// `doing` to a file of so many bytes did not work; errno says why.
absl::Status Failed(absl::string_view doing, const std::string& path,
                    int64_t bytes) {
  const int error = errno;
  return DiskError(doing, absl::StrCat(path, " (", bytes, " bytes)"), error);
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::span<const OutputTensor> tensors,
                                   int64_t max_file_bytes) {
  std::vector<Json> headers;
  std::vector<int64_t> data_bytes;
  for (const OutputTensor& tensor : tensors) {
    if (headers.empty() ||
        data_bytes.back() + tensor.bytes() > max_file_bytes) {
      headers.push_back(Json::object());
      data_bytes.push_back(0);
    }
    headers.back()[tensor.name] = EntryOf(tensor, data_bytes.back());
    places_.push_back({headers.size() - 1, data_bytes.back()});
    data_bytes.back() += tensor.bytes();
  }
  for (size_t i = 0; i < headers.size(); ++i) {
    File file;
    file.name = headers.size() == 1
                    ? "model.safetensors"
                    : absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1,
                                      headers.size());
    file.head = HeadOf(headers[i]);
    file.bytes = static_cast<int64_t>(file.head.size()) + data_bytes[i];
    files_.push_back(std::move(file));
  }
  for (Place& place : places_)
    place.offset += static_cast<int64_t>(files_[place.file].head.size());
  if (files_.size() > 1) index_ = IndexText(tensors);
}

CheckpointWriter::~CheckpointWriter() {
  for (const File& file : files_)
    if (file.fd >= 0) close(file.fd);
}

std::string CheckpointWriter::IndexText(
    std::span<const OutputTensor> tensors) const {
  Json map = Json::object();
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    map[tensors[i].name] = files_[places_[i].file].name;
    bytes += tensors[i].bytes();
  }
  return Json{{"metadata", {{"total_size", bytes}}},
              {"weight_map", std::move(map)}}
             .dump(1) +
         "\n";
}

int64_t CheckpointWriter::total_bytes() const {
  auto bytes = static_cast<int64_t>(index_.size());
  for (const File& file : files_) bytes += file.bytes;
  return bytes;
}

absl::Status CheckpointWriter::Open(const std::string& folder) {
  if (!index_.empty()) {
    File index;
    index.name = "model.safetensors.index.json";
    index.head = index_;
    index.bytes = static_cast<int64_t>(index_.size());
    files_.push_back(std::move(index));
  }
  for (File& file : files_) {
    file.path = absl::StrCat(folder, "/", file.name);
    file.fd =
        open(file.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file.fd < 0) return Failed("make", file.path, file.bytes);
    // Not every file system can; there the writes themselves will tell.
    if (fallocate(file.fd, 0, 0, file.bytes) != 0 && errno != EOPNOTSUPP &&
        errno != ENOSYS)
      return Failed("reserve", file.path, file.bytes);
    RETURN_IF_ERROR(WriteAt(file, file.head.data(), std::ssize(file.head), 0));
  }
  return absl::OkStatus();
}

absl::Status CheckpointWriter::WriteAt(const File& file, const void* data,
                                       int64_t bytes, int64_t offset) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written =
        pwrite(file.fd, at, static_cast<size_t>(bytes), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write", file.path, file.bytes);
    at += written;
    offset += written;
    bytes -= written;
  }
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Write(size_t tensor, int64_t offset,
                                     const void* data, int64_t bytes) {
  const Place& place = places_[tensor];
  const File& file = files_[place.file];
  CHECK(offset >= 0 && place.offset + offset + bytes <= file.bytes);
  return WriteAt(file, data, bytes, place.offset + offset);
}

absl::Status CheckpointWriter::Flush() {
  for (const File& file : files_)
    if (fsync(file.fd) != 0) return Failed("flush", file.path, file.bytes);
  return absl::OkStatus();
}

}  // namespace phalanx
