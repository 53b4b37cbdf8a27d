#include "tests/support/golden_file.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "kernels/bf16.h"

namespace phalanx {
namespace {

constexpr uint64_t kLengthBytes = 8;

void Require(bool condition, const std::string& path, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "golden file %s: %s\n", path.c_str(), what.c_str());
  std::abort();
}

std::string ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Require(in.good(), path, "cannot be opened");
  return std::string(std::istreambuf_iterator<char>(in), {});
}

nlohmann::json Parse(const std::string& text, const std::string& path) {
  nlohmann::json json =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  Require(!json.is_discarded(), path, "is not JSON");
  return json;
}

template <typename T>
std::vector<double> Widen(const std::string& bytes) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

std::vector<double> Decode(const std::string& dtype, const std::string& bytes,
                           const std::string& path) {
  if (dtype == "F64") return Widen<double>(bytes);
  if (dtype == "F32") return Widen<float>(bytes);
  if (dtype == "I64") return Widen<int64_t>(bytes);
  if (dtype == "I32") return Widen<int32_t>(bytes);
  if (dtype == "U32") return Widen<uint32_t>(bytes);
  if (dtype == "U16") return Widen<uint16_t>(bytes);
  if (dtype == "U8") return Widen<uint8_t>(bytes);
  Require(dtype == "BF16", path, "holds the unknown type " + dtype);
  std::vector<double> values = Widen<uint16_t>(bytes);
  for (double& value : values) value = Bf16ToF32(static_cast<uint16_t>(value));
  return values;
}

}  // namespace

std::vector<float> GoldenTensor::floats() const {
  return std::vector<float>(values.begin(), values.end());
}

std::vector<int32_t> GoldenTensor::ints() const {
  return std::vector<int32_t>(values.begin(), values.end());
}

GoldenFile::GoldenFile(const std::string& path) : path_(path) {
  const std::string bytes = ReadWhole(path);
  uint64_t header_bytes = 0;
  Require(bytes.size() >= kLengthBytes, path, "is too short");
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  Require(header_bytes <= bytes.size() - kLengthBytes, path, "is cut off");
  const nlohmann::json header =
      Parse(bytes.substr(kLengthBytes, header_bytes), path);
  data_ = bytes.substr(kLengthBytes + header_bytes);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      metadata_ = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    Entry& e = entries_[name];
    e.dtype = entry.at("dtype").get<std::string>();
    e.shape = entry.at("shape").get<std::vector<int64_t>>();
    e.begin = entry.at("data_offsets").at(0).get<int64_t>();
    e.end = entry.at("data_offsets").at(1).get<int64_t>();
    Require(0 <= e.begin && e.begin <= e.end &&
                e.end <= static_cast<int64_t>(data_.size()),
            path, name + " lies outside the file");
  }
}

GoldenTensor GoldenFile::Get(const std::string& name) const {
  const auto found = entries_.find(name);
  Require(found != entries_.end(), path_, "holds no " + name);
  const Entry& entry = found->second;
  GoldenTensor tensor;
  tensor.dtype = entry.dtype;
  tensor.shape = entry.shape;
  tensor.values = Decode(
      entry.dtype, data_.substr(entry.begin, entry.end - entry.begin), path_);
  int64_t elements = 1;
  for (int64_t dim : entry.shape) elements *= dim;
  Require(elements == tensor.elements(), path_,
          name + " has another size than its shape");
  return tensor;
}

std::vector<std::string> GoldenFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

nlohmann::json ReadGoldenJson(const std::string& path) {
  return Parse(ReadWhole(path), path);
}

}  // namespace phalanx
