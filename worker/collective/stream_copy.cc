#include "worker/collective/stream_copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace phalanx {

#if defined(__x86_64__)

void StreamCopy(void* to, const void* from, int64_t bytes) {
  constexpr int64_t kVectorBytes = sizeof(__m128i);
  auto* target = static_cast<__m128i*>(to);
  const auto* source = static_cast<const __m128i*>(from);
  const int64_t vectors = bytes / kVectorBytes;
  for (int64_t i = 0; i < vectors; ++i)
    _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
  std::memcpy(target + vectors, source + vectors, bytes % kVectorBytes);
  // Such stores are not ordered with later ones by themselves.
  _mm_sfence();
}

#else

void StreamCopy(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace phalanx
