#include "worker/checkpoint/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "common/check.h"

namespace phalanx {
namespace {

constexpr size_t kEndBytes = size_t{32} << 10;
constexpr size_t kHashBytes = 32;

// SHA-256 over values that are each preceded by their length, so that no two
// lists of values give the same bytes.
class Hasher {
 public:
  Hasher() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    CHECK(context_ != nullptr);
    CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }

  void Add(std::span<const std::byte> bytes) {
    AddNumber(bytes.size());
    Update(bytes.data(), bytes.size());
  }

  void AddNumber(uint64_t number) {
    std::array<unsigned char, 8> little_endian;
    for (size_t i = 0; i < little_endian.size(); ++i)
      little_endian[i] = static_cast<unsigned char>(number >> (8 * i));
    Update(little_endian.data(), little_endian.size());
  }

  std::string Finish() {
    std::string hash(kHashBytes, '\0');
    unsigned size = 0;
    CHECK(EVP_DigestFinal_ex(context_.get(),
                             reinterpret_cast<unsigned char*>(hash.data()),
                             &size) == 1);
    CHECK(size == kHashBytes);
    return hash;
  }

 private:
  void Update(const void* data, size_t size) {
    CHECK(EVP_DigestUpdate(context_.get(), data, size) == 1);
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

std::string HashFile(const SafetensorsFile& file) {
  Hasher hasher;
  hasher.Add(file.header());
  for (const StoredTensor& tensor : file.tensors()) {
    const std::span<const std::byte> data = tensor.data;
    hasher.AddNumber(data.size());
    const size_t end = std::min(kEndBytes, data.size());
    hasher.Add(data.first(end));
    // Of a short tensor, the part that the first piece did not cover.
    hasher.Add(data.last(std::min(kEndBytes, data.size() - end)));
  }
  return hasher.Finish();
}

}  // namespace

std::string ModelDigest(const Checkpoint& checkpoint) {
  std::vector<std::string> hashes;
  for (const auto& file : checkpoint.files()) hashes.push_back(HashFile(*file));
  std::sort(hashes.begin(), hashes.end());
  Hasher hasher;
  hasher.AddNumber(hashes.size());
  for (const std::string& hash : hashes)
    hasher.Add(std::as_bytes(std::span(hash)));
  const std::string digest = hasher.Finish();
  return absl::BytesToHexString(absl::string_view(digest));
}

std::string SourceDigest(const std::string& digest, const ModelConfig& config) {
  const bool holds =
      config.codes_origin.has_value() && config.codes_origin->digest == digest;
  return holds ? config.codes_origin->source_digest : digest;
}

}  // namespace phalanx
