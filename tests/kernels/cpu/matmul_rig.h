#ifndef PHALANX_TESTS_KERNELS_CPU_MATMUL_RIG_H_
#define PHALANX_TESTS_KERNELS_CPU_MATMUL_RIG_H_

// What the tests of CPU products share: a backend of some kind and thread
// count, random bf16 data, and the chain that family fma promises.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/status_matchers.h"

namespace phalanx {

// One way to run the kernels.
struct CpuKind {
  Isa isa;
  KernelFamily family;
};

inline const CpuKind kPortableFma = {Isa::kPortable, KernelFamily::kFma};
inline const CpuKind kAvx2Fma = {Isa::kAvx2, KernelFamily::kFma};
inline const CpuKind kAvx512Fma = {Isa::kAvx512, KernelFamily::kFma};
inline const CpuKind kAvx512Bf16Dot = {Isa::kAvx512, KernelFamily::kBf16Dot};

inline bool CanRun(const CpuKind& kind) {
  const CpuFeatures cpu = DetectCpu();
  return Supports(cpu, kind.isa, kind.family);
}

inline std::string KindName(const testing::TestParamInfo<CpuKind>& info) {
  return std::string(IsaName(info.param.isa)) +
         (info.param.family == KernelFamily::kFma ? "Fma" : "Bf16Dot");
}

inline std::unique_ptr<Backend> MakeCpu(const CpuKind& kind, int threads = 1) {
  CpuBackendConfig config;
  config.threads = threads;
  config.isa = kind.isa;
  config.family = kind.family;
  return *CreateCpuBackend(config);
}

using Bf16s = std::vector<uint16_t>;
using Floats = std::vector<float>;

// Normal values, so that sums round and their order shows.
inline Bf16s RandomBf16(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Bf16s values(count);
  for (uint16_t& v : values) v = F32ToBf16(normal(random));
  return values;
}

inline PackedWeight Pack(Backend& backend, const Bf16s& host, int64_t count,
                         int64_t rows, int64_t cols, WeightLayout layout) {
  PackedWeight w = *backend.AllocateWeight(
      {.count = count, .rows = rows, .cols = cols, .layout = layout},
      MemoryComponent::kActivations, "weight");
  for (int64_t i = 0; i < count; ++i)
    backend.PackWeight(host.data() + i * rows * cols, i, w);
  return w;
}

// The chain of family fma over columns first .. last - 1.
inline float Chain(const uint16_t* x, const uint16_t* w, int64_t first,
                   int64_t last) {
  float sum = 0.0f;
  for (int64_t k = first; k < last; ++k)
    sum = std::fma(Bf16ToF32(x[k]), Bf16ToF32(w[k]), sum);
  return sum;
}

// One chain a slice, added by the tree of neighbours.
inline float SlicedChain(const uint16_t* x, const uint16_t* w, int64_t cols,
                         int slices) {
  Floats sums(slices);
  const int64_t slice = cols / slices;
  for (int s = 0; s < slices; ++s)
    sums[s] = Chain(x, w, s * slice, (s + 1) * slice);
  while (sums.size() > 1) {
    Floats next;
    for (size_t i = 0; i < sums.size(); i += 2)
      next.push_back(sums[i] + sums[i + 1]);
    sums = next;
  }
  return sums[0];
}

}  // namespace phalanx

#endif  // PHALANX_TESTS_KERNELS_CPU_MATMUL_RIG_H_
