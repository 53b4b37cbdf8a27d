#include "worker/checkpoint/safetensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status.h"
#include "worker/checkpoint/safetensors_header.h"

namespace phalanx {
namespace {

constexpr size_t kLengthBytes = 8;

struct TypeInfo {
  StoredType type;
  absl::string_view name;
  uint64_t bits;
};

constexpr TypeInfo kTypes[] = {
    {StoredType::kBool, "BOOL", 8},      {StoredType::kU8, "U8", 8},
    {StoredType::kI8, "I8", 8},          {StoredType::kF8E4M3, "F8_E4M3", 8},
    {StoredType::kF8E5M2, "F8_E5M2", 8}, {StoredType::kF8E8M0, "F8_E8M0", 8},
    {StoredType::kI16, "I16", 16},       {StoredType::kU16, "U16", 16},
    {StoredType::kF16, "F16", 16},       {StoredType::kBf16, "BF16", 16},
    {StoredType::kI32, "I32", 32},       {StoredType::kU32, "U32", 32},
    {StoredType::kF32, "F32", 32},       {StoredType::kI64, "I64", 64},
    {StoredType::kU64, "U64", 64},       {StoredType::kF64, "F64", 64},
    {StoredType::kC64, "C64", 64},       {StoredType::kF4, "F4", 4},
    {StoredType::kF6E2M3, "F6_E2M3", 6}, {StoredType::kF6E3M2, "F6_E3M2", 6},
};

const TypeInfo* FindType(absl::string_view name) {
  for (const TypeInfo& info : kTypes)
    if (info.name == name) return &info;
  return nullptr;
}

// prod(shape) * bits / 8, or nothing where that is no whole number of bytes or
// does not fit into 63 bits.
std::optional<uint64_t> ShapeBytes(const std::vector<uint64_t>& shape,
                                   uint64_t bits) {
  uint64_t total = bits;
  for (uint64_t dim : shape)
    if (__builtin_mul_overflow(total, dim, &total) || total >> 63)
      return std::nullopt;
  // A zero elsewhere must not hide a dimension that is out of range.
  for (uint64_t dim : shape)
    if (dim >> 62) return std::nullopt;
  if (total % 8 != 0) return std::nullopt;
  return total / 8;
}

// One entry against the data that follows the header.
absl::StatusOr<StoredTensor> ReadEntry(HeaderEntry entry,
                                       std::span<const std::byte> data) {
  const std::string where =
      absl::StrCat("tensor ", absl::CEscape(entry.name), ": ");
  const TypeInfo* info = FindType(entry.dtype);
  if (info == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(
        where, "dtype \"",
        absl::CEscape(absl::string_view(entry.dtype).substr(0, 32)),
        "\" is unknown"));
  const std::string shape = absl::StrJoin(entry.shape, ",");
  if (entry.data_offsets.size() != 2)
    return absl::DataLossError(absl::StrCat(where, "data_offsets has ",
                                            entry.data_offsets.size(),
                                            " numbers; must have 2"));
  const uint64_t begin = entry.data_offsets[0];
  const uint64_t end = entry.data_offsets[1];
  if (begin > end || end > data.size())
    return absl::DataLossError(absl::StrCat(
        where, "data_offsets are [", begin, ",", end, "]; the file has ",
        data.size(), " bytes of data: truncated or corrupt"));
  const std::optional<uint64_t> bytes = ShapeBytes(entry.shape, info->bits);
  if (!bytes.has_value() || *bytes != end - begin)
    return absl::DataLossError(
        absl::StrCat(where, "data_offsets hold ", end - begin,
                     " bytes; shape [", shape, "] of ", info->name, " needs ",
                     bytes.has_value() ? absl::StrCat(*bytes)
                                       : std::string("no such number")));
  StoredTensor tensor;
  tensor.name = std::move(entry.name);
  tensor.type = info->type;
  tensor.shape.assign(entry.shape.begin(), entry.shape.end());
  tensor.data = data.subspan(begin, end - begin);
  return tensor;
}

absl::Status RefuseOverlap(const std::vector<StoredTensor>& sorted,
                           std::span<const std::byte> data) {
  const StoredTensor* last = nullptr;
  for (const StoredTensor& tensor : sorted) {
    if (tensor.data.empty()) continue;
    if (last != nullptr &&
        tensor.data.data() < last->data.data() + last->data.size())
      return absl::DataLossError(absl::StrCat(
          "tensor ", absl::CEscape(tensor.name), ": data_offsets begin at ",
          tensor.data.data() - data.data(), ", inside tensor ",
          absl::CEscape(last->name)));
    last = &tensor;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> HeaderLength(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes)
    return absl::DataLossError(
        absl::StrCat("the file has ", bytes.size(), " bytes; a header needs ",
                     kLengthBytes, " at least: truncated"));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length > kMaxSafetensorsHeaderBytes)
    return absl::InvalidArgumentError(absl::StrCat(
        "header length is ", length, "; at most ", kMaxSafetensorsHeaderBytes));
  if (length > bytes.size() - kLengthBytes)
    return absl::DataLossError(absl::StrCat(
        "header length is ", length, "; the file has ",
        bytes.size() - kLengthBytes, " bytes after it: truncated"));
  return length;
}

absl::StatusOr<std::vector<StoredTensor>> Parse(
    std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const uint64_t length, HeaderLength(bytes));
  const absl::string_view json(
      reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  ASSIGN_OR_RETURN(std::vector<HeaderEntry> entries,
                   ParseSafetensorsHeader(json));
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);
  std::vector<StoredTensor> tensors;
  tensors.reserve(entries.size());
  for (HeaderEntry& entry : entries) {
    ASSIGN_OR_RETURN(StoredTensor tensor, ReadEntry(std::move(entry), data));
    tensors.push_back(std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              if (a.data.data() != b.data.data())
                return a.data.data() < b.data.data();
              return a.name < b.name;
            });
  RETURN_IF_ERROR(RefuseOverlap(tensors, data));
  return tensors;
}

}  // namespace

absl::string_view StoredTypeName(StoredType type) {
  for (const TypeInfo& info : kTypes)
    if (info.type == type) return info.name;
  return "?";
}

absl::StatusOr<std::vector<StoredTensor>> ParseSafetensors(
    std::span<const std::byte> bytes, absl::string_view file_name) {
  auto tensors = Parse(bytes);
  if (!tensors.ok())
    return absl::Status(
        tensors.status().code(),
        absl::StrCat(file_name, ": ", tensors.status().message()));
  return tensors;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  ASSIGN_OR_RETURN(std::vector<StoredTensor> tensors,
                   ParseSafetensors(file->bytes(), path));
  return std::unique_ptr<SafetensorsFile>(
      new SafetensorsFile(std::move(file), std::move(tensors)));
}

std::span<const std::byte> SafetensorsFile::header() const {
  const auto length = HeaderLength(file_->bytes());
  return file_->bytes().first(kLengthBytes + *length);
}

}  // namespace phalanx
