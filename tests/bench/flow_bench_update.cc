#include "tests/bench/flow_bench_update.h"

#include <immintrin.h>

#include <cstring>

namespace phalanx {
namespace {

__attribute__((target("avx512f"))) void UpdateMemoryAvx512(char* data,
                                                           int64_t bytes) {
  const __m512i one = _mm512_set1_epi32(1);
  for (int64_t i = 0; i < bytes; i += 256) {
    for (int j = 0; j < 4; ++j) {
      char* p = data + i + j * 64;
      _mm512_store_si512(p, _mm512_xor_si512(_mm512_load_si512(p), one));
    }
  }
}

void UpdateMemoryPortable(char* data, int64_t bytes) {
  const __m128i one = _mm_set1_epi32(1);
  for (int64_t i = 0; i < bytes; i += 16) {
    auto* p = reinterpret_cast<__m128i*>(data + i);
    _mm_store_si128(p, _mm_xor_si128(_mm_load_si128(p), one));
  }
}

}  // namespace

void UpdateMemory(char* data, int64_t bytes) {
  __builtin_cpu_supports("avx512f") ? UpdateMemoryAvx512(data, bytes)
                                    : UpdateMemoryPortable(data, bytes);
}

}  // namespace phalanx
