#include "worker/bench/noise.h"

#include <algorithm>
#include <random>

#include "kernels/bf16.h"

namespace phalanx {
namespace {

constexpr int64_t kElements = int64_t{1} << 18;

}  // namespace

Noise::Noise(uint32_t seed, float scale) : wide_(kElements) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  for (float& v : wide_) v = uniform(random);
  narrow_.resize(kElements);
  std::transform(wide_.begin(), wide_.end(), narrow_.begin(), F32ToBf16);
}

void Noise::Fill(Backend& backend, Tensor to) const {
  const void* pattern = to.dtype == DType::kF32
                            ? static_cast<const void*>(wide_.data())
                            : narrow_.data();
  for (int64_t i = 0; i < to.elements(); i += kElements) {
    const Tensor piece =
        MakeTensor(static_cast<char*>(to.data) + i * ElementBytes(to.dtype),
                   to.dtype, std::min(kElements, to.elements() - i));
    backend.Upload(pattern, piece);
  }
}

}  // namespace phalanx
