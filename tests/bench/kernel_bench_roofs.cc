#include "tests/bench/kernel_bench_roofs.h"

#include <immintrin.h>

#include "kernels/cpu/isa.h"

namespace phalanx {
namespace {

// Enough to hide the latency of two units.
constexpr int kChains = 16;
constexpr int64_t kSteps = 4'000'000;

const CpuFeatures& Cpu() {
  static const CpuFeatures kCpu = DetectCpu();
  return kCpu;
}

// Keeps the compiler from dropping what led to `value`.
template <typename T>
inline void Use(const T& value) {
  asm volatile("" : : "m"(value) : "memory");
}

// Makes the compiler believe that the chains start from different values, lest
// it run one of them for all.
template <typename T>
inline void Disguise(T& value) {
  asm volatile("" : "+m"(value));
}

__attribute__((target("avx512f"))) void ReadMemoryAvx512(const char* data,
                                                         int64_t bytes) {
  constexpr int kSums = 8;
  __m512i sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * 64 <= bytes; i += kSums * 64) {
    for (int j = 0; j < kSums; ++j) {
      sums[j] = _mm512_xor_si512(sums[j], _mm512_load_si512(data + i + j * 64));
    }
  }
  for (; i < bytes; i += 64)
    sums[0] = _mm512_xor_si512(sums[0], _mm512_load_si512(data + i));
  for (__m512i& sum : sums) Use(sum);
}

void ReadMemoryPortable(const char* data, int64_t bytes) {
  __m128i sums[4] = {};
  for (int64_t i = 0; i < bytes; i += 64) {
    for (int j = 0; j < 4; ++j) {
      const auto* p = reinterpret_cast<const __m128i*>(data + i + j * 16);
      sums[j] = _mm_xor_si128(sums[j], _mm_load_si128(p));
    }
  }
  for (__m128i& sum : sums) Use(sum);
}

__attribute__((target("avx512f"))) double FmaFlopsAvx512() {
  __m512 sums[kChains] = {};
  for (__m512& sum : sums) Disguise(sum);
  const __m512 x = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < kSteps; ++i)
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(x, x, sum);
  for (__m512& sum : sums) Use(sum);
  return 2.0 * 16 * kChains * kSteps;
}

// What the portable kernels' instructions could do: a multiplication and an
// addition of four.
double FmaFlopsPortable() {
  __m128 sums[kChains / 2] = {};
  for (__m128& sum : sums) Disguise(sum);
  __m128 x = _mm_set1_ps(0.5f);
  for (int64_t i = 0; i < kSteps; ++i) {
    for (__m128& sum : sums) sum = _mm_add_ps(_mm_mul_ps(x, x), sum);
    asm volatile("" : "+x"(x));
  }
  for (__m128& sum : sums) Use(sum);
  return 2.0 * 4 * (kChains / 2) * kSteps;
}

__attribute__((target("avx512f,avx512bf16"))) double Bf16DotFlopsAvx512() {
  __m512 sums[kChains] = {};
  for (__m512& sum : sums) Disguise(sum);
  const __m512bh x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));
  for (int64_t i = 0; i < kSteps; ++i)
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, x, x);
  for (__m512& sum : sums) Use(sum);
  return 4.0 * 16 * kChains * kSteps;
}

// Assembly, since GCC 12 copies accumulators of the intrinsic.
__attribute__((target("avx512f"))) double Int8DotOpsAvx512() {
  __m512i sums[kChains] = {};
  const __m512i x = _mm512_set1_epi8(1);
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
  for (int64_t i = 0; i < kSteps; ++i)
    for (__m512i& sum : sums) asm("vpdpbusd %1, %1, %0" : "+v"(sum) : "v"(x));
  for (const __m512i& sum : sums) asm volatile("" : : "v"(sum));
  return 2.0 * 64 * kChains * kSteps;
}

}  // namespace

void ReadMemory(const char* data, int64_t bytes) {
  Cpu().avx512 ? ReadMemoryAvx512(data, bytes)
               : ReadMemoryPortable(data, bytes);
}

double FmaFlops() {
  return Cpu().avx512 ? FmaFlopsAvx512() : FmaFlopsPortable();
}

double Int8DotOps() { return Cpu().avx512_vnni ? Int8DotOpsAvx512() : 0.0; }

double Bf16DotFlops() { return Cpu().avx512_bf16 ? Bf16DotFlopsAvx512() : 0.0; }

}  // namespace phalanx
