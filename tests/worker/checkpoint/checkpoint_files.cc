#include "tests/worker/checkpoint/checkpoint_files.h"

#include <openssl/evp.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/escaping.h"
#include "common/check.h"

namespace phalanx {

TempFolder::TempFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "phalanx-test-XXXXXX").string();
  CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

void TempFolder::Write(const std::string& name,
                       const std::string& bytes) const {
  std::ofstream file(path_ + "/" + name, std::ios::binary);
  file << bytes;
  CHECK(file.good());
}

std::string SafetensorsBytes(const std::string& json, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes.push_back(
        static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * i)));
  return bytes + json + data;
}

std::string SafetensorsBytes(const TensorSpecs& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {
        {"dtype", tensor.dtype},
        {"shape", tensor.shape},
        {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  return SafetensorsBytes(header.dump(), data);
}

TensorSpecs ReadTensors(const std::string& model_dir) {
  TensorSpecs tensors;
  for (const auto& entry : std::filesystem::directory_iterator(model_dir)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string bytes = ReadBytes(entry.path().string());
    uint64_t length = 0;
    for (size_t i = 0; i < 8; ++i)
      length |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i]))
                << (8 * i);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") continue;
      const size_t begin = value["data_offsets"][0].get<size_t>();
      const size_t end = value["data_offsets"][1].get<size_t>();
      tensors[name] = {value["dtype"].get<std::string>(),
                       value["shape"].get<std::vector<int64_t>>(),
                       bytes.substr(8 + length + begin, end - begin)};
    }
  }
  return tensors;
}

std::string SliceBytes(const TensorSpec& tensor, const TensorSlice& slice) {
  if (slice.dim == TensorSlice::kWhole) return tensor.data;
  int64_t outer = 1;
  for (int i = 0; i < slice.dim; ++i)
    outer *= tensor.shape[static_cast<size_t>(i)];
  const int64_t size = tensor.shape[static_cast<size_t>(slice.dim)];
  const int64_t inner_bytes =
      static_cast<int64_t>(tensor.data.size()) / (outer * size);
  std::string bytes;
  for (int64_t o = 0; o < outer; ++o)
    for (const Range& range : slice.ranges)
      bytes += tensor.data.substr(
          static_cast<size_t>((o * size + range.begin) * inner_bytes),
          static_cast<size_t>(range.size() * inner_bytes));
  return bytes +
         std::string(static_cast<size_t>(slice.padding * inner_bytes), '\0');
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

nlohmann::json ReadJson(const std::string& path) {
  return nlohmann::json::parse(ReadBytes(path));
}

std::string Sha256(const std::string& bytes) {
  std::string hash(32, '\0');
  unsigned size = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(),
                   reinterpret_cast<unsigned char*>(hash.data()), &size,
                   EVP_sha256(), nullptr) == 1);
  return absl::BytesToHexString(absl::string_view(hash));
}

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace phalanx
