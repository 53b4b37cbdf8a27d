#include "kernels/cpu/cpu_roof_loops.h"

#include <immintrin.h>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/isa.h"

// Each loop names its instructions by an attribute and calls nothing but
// intrinsics, so no wide code of it can become that of an inline function which
// the rest of the program shares (CMakeLists.txt).

namespace phalanx {
namespace {

// Enough to hide the latency of two units.
constexpr int kChains = 16;
// Of the 16 registers that narrower sets have, less the factors.
constexpr int kNarrowChains = 12;
constexpr int64_t kSteps = 4'000'000;

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

__attribute__((target("avx512f"))) void ReadAvx512(const char* data,
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

void ReadPortable(const char* data, int64_t bytes) {
  __m128i sums[4] = {};
  for (int64_t i = 0; i < bytes; i += 64) {
    for (int j = 0; j < 4; ++j) {
      const auto* p = reinterpret_cast<const __m128i*>(data + i + j * 16);
      sums[j] = _mm_xor_si128(sums[j], _mm_load_si128(p));
    }
  }
  for (__m128i& sum : sums) Use(sum);
}

__attribute__((target("avx512f"))) double F32FmaAvx512() {
  __m512 sums[kChains] = {};
  for (__m512& sum : sums) Disguise(sum);
  const __m512 x = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < kSteps; ++i)
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(x, x, sum);
  for (__m512& sum : sums) Use(sum);
  return 2.0 * 16 * kChains * kSteps;
}

__attribute__((target("avx2,fma"))) double F32FmaAvx2() {
  __m256 sums[kNarrowChains] = {};
  for (__m256& sum : sums) Disguise(sum);
  const __m256 x = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < kSteps; ++i)
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(x, x, sum);
  for (__m256& sum : sums) Use(sum);
  return 2.0 * 8 * kNarrowChains * kSteps;
}

// What the portable kernels' instructions could do: a multiplication and an
// addition of four.
double F32FmaPortable() {
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

__attribute__((target("avx512f,avx512bf16"))) double Bf16DotAvx512() {
  __m512 sums[kChains] = {};
  for (__m512& sum : sums) Disguise(sum);
  const __m512bh x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));
  for (int64_t i = 0; i < kSteps; ++i)
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, x, x);
  for (__m512& sum : sums) Use(sum);
  return 4.0 * 16 * kChains * kSteps;
}

__attribute__((target("avx512f,avx512vnni"))) double Int8DotAvx512() {
  __m512i sums[kChains] = {};
  for (__m512i& sum : sums) Disguise(sum);
  const __m512i x = _mm512_set1_epi32(0x01010101);
  for (int64_t i = 0; i < kSteps; ++i)
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, x, x);
  for (__m512i& sum : sums) Use(sum);
  return 8.0 * 16 * kChains * kSteps;
}

// Without VNNI a dot product is three instructions.
__attribute__((target("avx2"))) double Int8DotAvx2() {
  constexpr int kSums = 8;
  constexpr int64_t kShorter = kSteps / 2;
  __m256i sums[kSums] = {};
  for (__m256i& sum : sums) Disguise(sum);
  __m256i x = _mm256_set1_epi32(0x01010101);
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < kShorter; ++i) {
    for (__m256i& sum : sums) {
      asm volatile("" : "+x"(x));  // Else the product leaves the loop.
      const __m256i pairs = _mm256_maddubs_epi16(x, x);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
  }
  for (__m256i& sum : sums) Use(sum);
  return 8.0 * 8 * kSums * kShorter;
}

}  // namespace

RoofLoops CpuRoofLoops() {
  const CpuFeatures cpu = DetectCpu();
  RoofLoops loops;
  loops.processor = absl::StrCat(cpu.name, " (", cpu.vendor, ", family ",
                                 cpu.family, ", model ", cpu.model, ")");
  // 16-byte loads are as fast as wider ones where memory is the limit.
  loops.read = cpu.avx512 ? ReadAvx512 : ReadPortable;
  loops.f32_fma = cpu.avx512 ? F32FmaAvx512
                  : cpu.avx2 ? F32FmaAvx2
                             : F32FmaPortable;
  if (cpu.avx512_bf16) loops.bf16_dot = Bf16DotAvx512;
  if (cpu.avx512_vnni)
    loops.int8_dot = Int8DotAvx512;
  else if (cpu.avx2)
    loops.int8_dot = Int8DotAvx2;
  return loops;
}

}  // namespace phalanx
