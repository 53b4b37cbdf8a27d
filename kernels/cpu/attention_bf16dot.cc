// Attention in kernel family bf16dot: q k and p v by the bf16 dot product, a
// pair of terms at a time. Pairs are neighbouring dimensions of q and k, and
// neighbouring positions of p and v, so each sum is still one chain that
// depends on the shape and the position alone. Compiled for AVX-512 with BF16
// alone.

#include <immintrin.h>

#include "kernels/cpu/attention_segment.h"
#include "kernels/cpu/kernels.h"

namespace phalanx::PHALANX_ISA {
namespace {

// Thirty-two bf16.
using Bf16x32 = __m512i;

F32x16 Dot(F32x16 sum, Bf16x32 a, Bf16x32 b) {
  return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(a),
                           reinterpret_cast<__m512bh>(b))};
}

void Hold(Bf16x32& x) { asm("" : "+v"(x)); }

Bf16x32 LoadAll(const uint16_t* p) { return _mm512_loadu_si512(p); }

// The first n; zeros above.
Bf16x32 LoadFirst(const uint16_t* p, int64_t n) {
  const __mmask32 first = n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1;
  return _mm512_maskz_loadu_epi16(first, p);
}

// Values of two positions, side by side for each of 32 dimensions.
struct ValuePair {
  Bf16x32 low, high;
};

ValuePair PairValues(Bf16x32 even, Bf16x32 odd) {
  alignas(64) static constexpr uint16_t kLow[32] = {
      0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
      8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const Bf16x32 low = LoadAll(kLow);
  const Bf16x32 high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  return {_mm512_permutex2var_epi16(even, low, odd),
          _mm512_permutex2var_epi16(even, high, odd)};
}

// The pair with zero for the odd position.
ValuePair WithoutOdd(const ValuePair& pair) {
  const Bf16x32 even = _mm512_set1_epi32(0xffff);
  return {_mm512_and_si512(pair.low, even), _mm512_and_si512(pair.high, even)};
}

// `width` dimensions of a value and, if there are both, of the next one.
ValuePair LoadPair(const uint16_t* value, int64_t stride, int64_t width,
                   bool both) {
  if (width >= kDimStep && both)
    return PairValues(LoadAll(value), LoadAll(value + stride));
  return PairValues(
      LoadFirst(value, width),
      both ? LoadFirst(value + stride, width) : _mm512_setzero_si512());
}

struct Bf16DotProducts {
  static int64_t QueryFloats(const AttentionShape& shape) {
    return shape.padded() / 2;
  }

  static void LoadQuery(const uint16_t* query, const AttentionShape& shape,
                        float* room) {
    auto* out = reinterpret_cast<uint16_t*>(room);
    for (int64_t d = 0; d < shape.padded(); d += kDimStep)
      _mm512_storeu_si512(out + d, LoadFirst(query + d, shape.head_size - d));
  }

  // With as many keys, the fewest loads.
  static constexpr int kQueriesToScore = 4;

  template <int kCount>
  static void ScoreKeys(const AttentionShape& shape, const float* queries,
                        const uint16_t* keys, float* scores);

  // Exp yields no number below 2^-126, which the instruction would flush.
  static void StoreProbabilities(F32x16 p, float* scores, int64_t v) {
    const __m256bh rounded = _mm512_cvtneps_pbh(p.v);
    std::memcpy(reinterpret_cast<uint16_t*>(scores) + v * kLanes, &rounded,
                sizeof(rounded));
  }

  // Values of positions j and j + 1; the second is zero where it is absent.
  struct WholeRows {
    static ValuePair Pair(const ValueStep& step, int64_t j, bool both) {
      const uint16_t* value = step.values + j * step.stride;
      return PairValues(LoadAll(value), both ? LoadAll(value + step.stride)
                                             : _mm512_setzero_si512());
    }
  };
  struct PartRows {
    static ValuePair Pair(const ValueStep& step, int64_t j, bool both) {
      return LoadPair(step.values + j * step.stride, step.stride, step.width,
                      both);
    }
  };
  struct PackedRows {
    static ValuePair Pair(const ValueStep& step, int64_t j, bool) {
      const uint16_t* pair = step.packed + j * kDimStep;
      return {LoadAll(pair), LoadAll(pair + kDimStep)};
    }
  };
  static constexpr bool kPacks = true;

  // Pairs of the first `count` positions.
  static void PackValues(const uint16_t* values, int64_t stride, int64_t width,
                         int64_t count, uint16_t* packed) {
    for (int64_t j = 0; j < count; j += 2) {
      const ValuePair pair =
          LoadPair(values + j * stride, stride, width, j + 1 < count);
      _mm512_store_si512(packed + j * kDimStep, pair.low);
      _mm512_store_si512(packed + (j + 1) * kDimStep, pair.high);
    }
  }

  template <int kCount, typename Values>
  static void AddValues(const ValueStep& step, F32x16* low, F32x16* high);
};

// Lane l of each sum is the chain over dimensions 2 l and 2 l + 1 of each 32;
// the tree adds the lanes.
template <int kCount>
[[gnu::noinline]] void Bf16DotProducts::ScoreKeys(const AttentionShape& shape,
                                                  const float* queries,
                                                  const uint16_t* keys,
                                                  float* scores) {
  constexpr int kKeys = kLanes / kCount;
  const int64_t size = shape.head_size;
  const auto* query = reinterpret_cast<const uint16_t*>(queries);
  F32x16 sums[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) sums[i] = Zero();
  const auto add = [&](int64_t d, const auto& load) {
    Bf16x32 parts[kKeys];
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; ++j) parts[j] = load(keys + j * size + d);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      Bf16x32 part = LoadAll(query + i * shape.padded() + d);
      Hold(part);
#pragma GCC unroll 16
      for (int j = 0; j < kKeys; ++j)
        sums[i * kKeys + j] = Dot(sums[i * kKeys + j], part, parts[j]);
    }
  };
  int64_t d = 0;
  for (; d + kDimStep <= size; d += kDimStep) add(d, LoadAll);
  if (d < size)
    add(d, [&](const uint16_t* key) { return LoadFirst(key, size - d); });
  StoreScores<kCount>(HorizontalSums(sums) * Broadcast(shape.scale), scores);
}

// As FmaProducts but for the pairs: a last position without a partner is paired
// with zero.
template <int kCount, typename Values>
[[gnu::always_inline]] inline void Bf16DotProducts::AddValues(
    const ValueStep& step, F32x16* low, F32x16* high) {
  const auto* probabilities =
      reinterpret_cast<const uint16_t*>(step.probabilities);
  const auto add = [&](int i, int64_t j, const ValuePair& pair) {
    int32_t both;
    std::memcpy(&both, probabilities + i * 2 * kBlock + j, sizeof(both));
    Bf16x32 p = _mm512_set1_epi32(both);
    Hold(p);
    low[i] = Dot(low[i], p, pair.low);
    high[i] = Dot(high[i], p, pair.high);
  };
  // Positions ascend with the queries, so the first sees the fewest.
  int64_t j = 0;
  for (; j + 2 <= step.seen[0]; j += 2) {
    if (j < step.lines) {
      Prefetch(step.ahead + j * kLineElements);
      Prefetch(step.ahead + (j + 1) * kLineElements);
    }
    const ValuePair pair = Values::Pair(step, j, true);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) add(i, j, pair);
  }
  for (; j < step.seen[kCount - 1]; j += 2) {
    // The partner is read only if some query sees it, so never past the block.
    const ValuePair pair = Values::Pair(step, j, j + 1 < step.seen[kCount - 1]);
    const ValuePair alone = WithoutOdd(pair);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i)
      if (j < step.seen[i]) add(i, j, j + 1 < step.seen[i] ? pair : alone);
  }
}

}  // namespace

void PagedAttentionBf16Dot(ThreadPool& pool, Tensor q, Tensor keys,
                           Tensor values, const Sequences& sequences,
                           float scale, Tensor y) {
  static constexpr AttentionKernels kKernels =
      AttentionKernelsOf<Bf16DotProducts>();
  PagedAttentionBy(kKernels, pool, q, keys, values, sequences, scale, y);
}

}  // namespace phalanx::PHALANX_ISA
