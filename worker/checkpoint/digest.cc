#include "worker/checkpoint/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
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

  // As raw bytes.
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

std::string Hex(const std::string& hash) {
  return absl::BytesToHexString(absl::string_view(hash));
}

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
  return Hex(hasher.Finish());
}

std::string SourceDigest(const std::string& digest, const ModelConfig& config) {
  const bool holds =
      config.codes_origin.has_value() && config.codes_origin->digest == digest;
  return holds ? config.codes_origin->source_digest : digest;
}

std::string ConfigDigest(const ModelConfig& config) {
  // Every field by its name: with another one this does not compile until it is
  // said here whether it enters.
  const auto& [dialect, model_type, hidden_size, vocab_size,
               max_position_embeddings, rms_norm_eps, tie_word_embeddings,
               block_fp8, stored_weights, codes_origin, layer_types,
               num_attention_heads, num_key_value_heads, head_dim, rotary_dim,
               rope_theta, linear_num_key_heads, linear_num_value_heads,
               linear_key_head_dim, linear_value_head_dim,
               linear_conv_kernel_dim, num_experts, num_experts_per_tok,
               moe_intermediate_size, shared_expert_intermediate_size,
               norm_topk_prob, intermediate_size] = config;
  Hasher hasher;
  hasher.Add(std::as_bytes(std::span(layer_types)));
  hasher.AddNumber(std::bit_cast<uint32_t>(rms_norm_eps));
  hasher.AddNumber(std::bit_cast<uint64_t>(rope_theta));
  for (const bool flag : {tie_word_embeddings, norm_topk_prob})
    hasher.AddNumber(flag ? 1 : 0);
  for (const int64_t number :
       {hidden_size, vocab_size, num_attention_heads, num_key_value_heads,
        head_dim, rotary_dim, linear_num_key_heads, linear_num_value_heads,
        linear_key_head_dim, linear_value_head_dim, linear_conv_kernel_dim,
        num_experts, num_experts_per_tok, moe_intermediate_size,
        shared_expert_intermediate_size, intermediate_size})
    hasher.AddNumber(static_cast<uint64_t>(number));
  return Hex(hasher.Finish());
}

}  // namespace phalanx
