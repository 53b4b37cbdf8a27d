#include "tests/worker/checkpoint/plain_tensors.h"

#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "kernels/bf16.h"

namespace phalanx {
namespace {

constexpr int64_t kBlock = 128;

float DecodeE4M3(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  if ((code & 127) == 127) return std::nanf("");
  const double value = exponent == 0
                           ? std::ldexp(mantissa / 8.0, -6)
                           : std::ldexp(1 + mantissa / 8.0, exponent - 7);
  return static_cast<float>(code < 128 ? value : -value);
}

TensorSpec Dequantise(const TensorSpec& weight, const TensorSpec& scale) {
  TensorSpec out{"BF16", weight.shape, ""};
  const int64_t cols = weight.shape[1];
  for (int64_t r = 0; r < weight.shape[0]; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      uint16_t bits;
      const int64_t block = r / kBlock * scale.shape[1] + c / kBlock;
      std::memcpy(&bits, scale.data.data() + 2 * block, 2);
      const float code = DecodeE4M3(
          static_cast<uint8_t>(weight.data[static_cast<size_t>(r * cols + c)]));
      bits = F32ToBf16(code * Bf16ToF32(bits));
      out.data.append(reinterpret_cast<const char*>(&bits), 2);
    }
  }
  return out;
}

// Deals the rows of `tensor` out to as many heaps as there are `sizes`: of each
// group, sizes[i] rows to heap i.
std::vector<TensorSpec> Deal(const TensorSpec& tensor,
                             const std::vector<int64_t>& sizes) {
  std::vector<TensorSpec> heaps(sizes.size(),
                                {tensor.dtype, {0, tensor.shape[1]}, ""});
  const size_t row_bytes = static_cast<size_t>(2 * tensor.shape[1]);
  for (size_t at = 0; at < tensor.data.size();) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const size_t bytes = static_cast<size_t>(sizes[i]) * row_bytes;
      heaps[i].data += tensor.data.substr(at, bytes);
      heaps[i].shape[0] += sizes[i];
      at += bytes;
    }
  }
  return heaps;
}

}  // namespace

TensorSpecs ReadPlainTensors(const std::string& model_dir) {
  const TensorSpecs stored = ReadTensors(model_dir);
  TensorSpecs out = stored;
  const std::string suffix = "_scale_inv";
  for (const auto& [name, scale] : stored) {
    if (!absl::EndsWith(name, suffix)) continue;
    const std::string weight = name.substr(0, name.size() - suffix.size());
    out[weight] = Dequantise(stored.at(weight), scale);
    out.erase(name);
  }
  const nlohmann::json config = ReadJson(model_dir + "/config.json");
  for (const auto& [name, unused] : stored) {
    const bool qkvz = absl::EndsWith(name, "in_proj_qkvz.weight");
    if (!qkvz && !absl::EndsWith(name, "in_proj_ba.weight")) continue;
    const TensorSpec tensor = out.at(name);
    const int64_t ratio = config["linear_num_value_heads"].get<int64_t>() /
                          config["linear_num_key_heads"].get<int64_t>();
    const int64_t key = config["linear_key_head_dim"];
    const int64_t value =
        ratio * config["linear_value_head_dim"].get<int64_t>();
    const std::string where = name.substr(0, name.rfind("in_proj_"));
    if (qkvz) {
      const auto heaps = Deal(tensor, {key, key, value, value});
      TensorSpec qkv = heaps[0];
      for (const TensorSpec& part : {heaps[1], heaps[2]}) {
        qkv.data += part.data;
        qkv.shape[0] += part.shape[0];
      }
      out[where + "in_proj_qkv.weight"] = qkv;
      out[where + "in_proj_z.weight"] = heaps[3];
    } else {
      const auto heaps = Deal(tensor, {ratio, ratio});
      out[where + "in_proj_b.weight"] = heaps[0];
      out[where + "in_proj_a.weight"] = heaps[1];
    }
    out.erase(name);
  }
  return out;
}

}  // namespace phalanx
