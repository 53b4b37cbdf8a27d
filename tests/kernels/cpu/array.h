#ifndef PHALANX_TESTS_KERNELS_CPU_ARRAY_H_
#define PHALANX_TESTS_KERNELS_CPU_ARRAY_H_

// Memory for the tensors of kernel tests, and what they all ask for.

#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/tensor.h"

namespace phalanx {

// Owns a contiguous tensor. T is float, int32_t, or uint16_t for bf16.
template <typename T>
class Array {
 public:
  template <typename... Dims>
  explicit Array(Dims... dims) {
    constexpr DType type = std::is_same_v<T, float>     ? DType::kF32
                           : std::is_same_v<T, int32_t> ? DType::kI32
                                                        : DType::kBf16;
    tensor_ = MakeTensor(nullptr, type, dims...);
    values_.resize(tensor_.elements());
    tensor_.data = values_.data();
  }
  Array(Array&&) = default;
  Array& operator=(Array&&) = default;

  operator Tensor() const { return tensor_; }  // NOLINT
  T& operator[](int64_t i) { return values_[i]; }
  const T& operator[](int64_t i) const { return values_[i]; }
  int64_t size() const { return static_cast<int64_t>(values_.size()); }
  std::vector<T>& values() { return values_; }
  const std::vector<T>& values() const { return values_; }

 private:
  std::vector<T> values_;
  Tensor tensor_;
};

// Numbers of one seed: normal, with this deviation.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  float Normal(float deviation) { return deviation * normal_(engine_); }
  int64_t Below(int64_t limit) { return engine_() % limit; }

  template <typename... Dims>
  Array<float> F32(float deviation, Dims... dims) {
    Array<float> a(dims...);
    for (float& v : a.values()) v = Normal(deviation);
    return a;
  }
  template <typename... Dims>
  Array<uint16_t> Bf16(float deviation, Dims... dims) {
    Array<uint16_t> a(dims...);
    for (uint16_t& v : a.values()) v = F32ToBf16(Normal(deviation));
    return a;
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

inline Array<int32_t> Ints(const std::vector<int32_t>& values) {
  Array<int32_t> a(static_cast<int64_t>(values.size()));
  a.values().assign(values.begin(), values.end());
  return a;
}

// The instruction sets that this machine can run.
inline std::vector<Isa> TestIsas() {
  std::vector<Isa> isas = {Isa::kPortable};
  if (DetectCpu().avx2) isas.push_back(Isa::kAvx2);
  if (DetectCpu().avx512) isas.push_back(Isa::kAvx512);
  return isas;
}

// Of family fma. One thread at a time.
inline const KernelTable& Kernels(Isa isa) {
  static KernelTable tables[3];
  KernelTable& table = tables[static_cast<size_t>(isa)];
  table = CpuTable(isa, KernelFamily::kFma, /*vnni=*/false);
  return table;
}

// Whether two results are the same to the bit.
template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// What `run(table, pool)` returns, in every instruction set with 1 and with 2
// threads.
template <typename Run>
auto EveryWay(const Run& run) {
  std::vector<std::decay_t<decltype(run(std::declval<const KernelTable&>(),
                                        std::declval<ThreadPool&>()))>>
      results;
  for (const Isa isa : TestIsas()) {
    for (const int threads : {1, 2}) {
      ThreadPool pool({.threads = threads, .cpus = {}, .spin = false});
      results.push_back(run(Kernels(isa), pool));
    }
  }
  return results;
}

// One rounding to bf16 of a value of this size.
inline double Bf16Rounding(double value) {
  return (value < 0 ? -value : value) * 0x1p-8 + 1e-38;
}

}  // namespace phalanx

#endif  // PHALANX_TESTS_KERNELS_CPU_ARRAY_H_
