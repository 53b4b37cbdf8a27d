// Attention in kernel family fma: everything widened to f32, one fused
// multiply-add a term. The same bits from every instruction set.

#include "kernels/cpu/attention_segment.h"

namespace phalanx::PHALANX_ISA {
namespace {

struct FmaProducts {
  static int64_t QueryFloats(const AttentionShape& shape) {
    return shape.padded();
  }

  static void LoadQuery(const uint16_t* query, const AttentionShape& shape,
                        float* room) {
    for (int64_t d = 0; d < shape.padded(); d += kLanes) {
      const int64_t n = shape.head_size - d;
      Store(room + d, n > 0 ? LoadPart(query + d, n) : Zero());
    }
  }

  // Each widens the keys, which fewer times is better.
  static constexpr int kQueriesToScore = 8;

  template <int kCount>
  static void ScoreKeys(const AttentionShape& shape, const float* queries,
                        const uint16_t* keys, float* scores);

  static void StoreProbabilities(F32x16 p, float* scores, int64_t v) {
    Store(scores + v * kLanes, RoundToBf16(p));
  }

  // 32 dimensions of position j's values, widened.
  struct WholeRows {
    static F32x16 Low(const ValueStep& step, int64_t j) {
      return Load(step.values + j * step.stride);
    }
    static F32x16 High(const ValueStep& step, int64_t j) {
      return Load(step.values + j * step.stride + kLanes);
    }
  };
  struct PartRows {
    static F32x16 Low(const ValueStep& step, int64_t j) {
      return LoadPart(step.values + j * step.stride, step.width);
    }
    static F32x16 High(const ValueStep& step, int64_t j) {
      const int64_t width = step.width - kLanes;
      return width > 0 ? LoadPart(step.values + j * step.stride + kLanes, width)
                       : Zero();
    }
  };
  static constexpr bool kPacks = false;

  template <int kCount, typename Values>
  static void AddValues(const ValueStep& step, F32x16* low, F32x16* high);
};

// Sixteen products: of kCount queries with the 16 / kCount keys at `keys`, put
// into the queries' rows of `scores`. Each is sixteen chains and the fixed tree
// of vec.h. A key is widened for all queries at once, in registers.
template <int kCount>
void FmaProducts::ScoreKeys(const AttentionShape& shape, const float* queries,
                            const uint16_t* keys, float* scores) {
  constexpr int kKeys = kLanes / kCount;
  const int64_t size = shape.head_size;
  const int64_t padded = shape.padded();
  F32x16 sums[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) sums[i] = Zero();
  const auto add = [&](int64_t d, const auto& load) {
    F32x16 parts[kKeys];
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; ++j) parts[j] = load(keys + j * size + d);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      F32x16 query = Load(queries + i * padded + d);
      Hold(query);
#pragma GCC unroll 16
      for (int j = 0; j < kKeys; ++j)
        sums[i * kKeys + j] = Fma(query, parts[j], sums[i * kKeys + j]);
    }
  };
  int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes)
    add(d, [](const uint16_t* key) { return Load(key); });
  if (d < size)
    add(d, [&](const uint16_t* key) { return LoadTail(key, size - d); });
  StoreScores<kCount>(HorizontalSums(sums) * Broadcast(shape.scale), scores);
}

// Adds probabilities * values to the sums of kCount queries, two vectors of
// dimensions each: one chain per element in order of position. Queries see
// different numbers of positions; each stops at its own.
template <int kCount, typename Values>
[[gnu::always_inline]] inline void FmaProducts::AddValues(const ValueStep& step,
                                                          F32x16* low,
                                                          F32x16* high) {
  const auto add = [&](int64_t j, const auto& takes) {
    const F32x16 v_low = Values::Low(step, j);
    const F32x16 v_high = Values::High(step, j);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      if (!takes(i)) continue;
      const F32x16 p = Broadcast(step.probabilities[i * kBlock + j]);
      low[i] = Fma(p, v_low, low[i]);
      high[i] = Fma(p, v_high, high[i]);
    }
  };
  // Positions ascend with the queries, so the first sees the fewest.
  int64_t j = 0;
  for (; j < step.seen[0]; ++j) {
    if (j < step.lines) Prefetch(step.ahead + j * kLineElements);
    add(j, [](int) { return true; });
  }
  for (; j < step.seen[kCount - 1]; ++j)
    add(j, [&](int i) { return j < step.seen[i]; });
}

}  // namespace

const AttentionKernels& FmaAttention() {
  static constexpr AttentionKernels kKernels =
      AttentionKernelsOf<FmaProducts>();
  return kKernels;
}

}  // namespace phalanx::PHALANX_ISA
