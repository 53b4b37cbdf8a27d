// Equal bits however a sequence is cut into steps, and however a contraction is
// cut into slices and ranks.

#include <cmath>
#include <functional>

#include "tests/kernels/op_programs.h"
#include "tests/kernels/ops_contract.h"
#include "tests/kernels/sequence_set.h"

namespace phalanx {
namespace {

constexpr int64_t kTokens = 330;  // Over a segment and several blocks.

// Cuts of kTokens into steps; tokens one by one at the boundaries.
const std::vector<std::vector<int64_t>> kCuts = {
    {kTokens},
    {1, 1, 1, 1, 60, 1, 191, 1, 73},
    {64, 192, 64, 10},
    {2, 300, 28},
};

class OpsExactnessCuts : public OpsContract {
 protected:
  // Runs `step` on each step of a cut and joins what it returns.
  Floats RunCut(
      const std::vector<int64_t>& cut,
      const std::function<Floats(int64_t first, int64_t count)>& step) {
    Floats all;
    int64_t first = 0;
    for (int64_t count : cut) {
      const Floats part = step(first, count);
      all.insert(all.end(), part.begin(), part.end());
      first += count;
    }
    return all;
  }

  // A sequence's rows [first, first + count) of `rows`, as act or f32.
  static Floats Part(const Floats& rows, int64_t width, int64_t first,
                     int64_t count) {
    return Floats(rows.begin() + first * width,
                  rows.begin() + (first + count) * width);
  }
};

TEST_P(OpsExactnessCuts, ConvSiluIsTheSameHoweverASequenceIsCut) {
  constexpr int64_t C = 40, W = 4;
  const Floats x = Noise(1, kTokens * C);
  const Tensor w = rig_.Param({C, W}, Noise(2, C * W));
  std::vector<Floats> results;
  for (const std::vector<int64_t>& cut : kCuts) {
    const Tensor state = rig_.Act({2, W - 1, C});
    Floats y = RunCut(cut, [&](int64_t first, int64_t count) {
      const SequenceSet set(rig_, {{count, first}});
      const Tensor part = rig_.F32({count, C});
      ops_.ConvSilu(rig_.Act({count, C}, Part(x, C, first, count)), w,
                    set.sequences, state, part);
      return rig_.Read(part);
    });
    const Floats last = rig_.Read(Rows(state, 1, 1));
    y.insert(y.end(), last.begin(), last.end());
    results.push_back(y);
  }

  for (const Floats& result : results) EXPECT_EQ(result, results[0]);
}

TEST_P(OpsExactnessCuts, GatedDeltaIsTheSameHoweverASequenceIsCut) {
  constexpr int64_t Nk = 1, Nv = 2, Dk = 24, Dv = 16;
  Floats g = Noise(3, kTokens * Nv), beta = Noise(4, kTokens * Nv);
  for (float& value : g) value = -std::abs(value) / 8;
  for (float& value : beta) value = (value + 1) / 2;
  const Floats q = Noise(5, kTokens * Nk * Dk), k = Noise(6, kTokens * Nk * Dk);
  const Floats v = Noise(7, kTokens * Nv * Dv);
  std::vector<Floats> results;
  for (const std::vector<int64_t>& cut : kCuts) {
    const Tensor state = rig_.F32({2, Nv, Dv, Dk});
    Floats y = RunCut(cut, [&](int64_t first, int64_t count) {
      const SequenceSet set(rig_, {{count, first}});
      const Tensor qs =
          rig_.F32({count, Nk, Dk}, Part(q, Nk * Dk, first, count));
      const Tensor ks =
          rig_.F32({count, Nk, Dk}, Part(k, Nk * Dk, first, count));
      const Tensor part = rig_.F32({count, Nv, Dv});
      ops_.L2Norm(qs, 0.25f, qs);
      ops_.L2Norm(ks, 1, ks);
      ops_.GatedDelta(qs, ks,
                      rig_.F32({count, Nv, Dv}, Part(v, Nv * Dv, first, count)),
                      rig_.F32({count, Nv}, Part(g, Nv, first, count)),
                      rig_.F32({count, Nv}, Part(beta, Nv, first, count)),
                      set.sequences, state, part);
      return rig_.Read(part);
    });
    const Floats last = rig_.Read(Rows(state, 1, 1));
    y.insert(y.end(), last.begin(), last.end());
    results.push_back(y);
  }

  for (const Floats& result : results) EXPECT_EQ(result, results[0]);
}

TEST_P(OpsExactnessCuts, PagedAttentionIsTheSameHoweverASequenceIsCut) {
  constexpr int64_t Nq = 4, Nk = 2, D = 32;
  const Floats q = Noise(8, kTokens * Nq * D);
  std::vector<Floats> results;
  for (const std::vector<int64_t>& cut : kCuts) {
    results.push_back(RunCut(cut, [&](int64_t first, int64_t count) {
      const SequenceSet set(rig_, {{count, first}});
      PagedCache cache(set.block_count, Nk, D);
      cache.Fill(set.blocks[0], first + count, /*seed=*/9);
      const Tensor part = rig_.F32({count, Nq, D});
      ops_.PagedAttention(
          rig_.Act({count, Nq, D}, Part(q, Nq * D, first, count)),
          rig_.Act(cache.dims(), cache.keys),
          rig_.Act(cache.dims(), cache.values), set.sequences, 0.5f, part);
      return rig_.Read(part);
    }));
  }

  for (const Floats& result : results) EXPECT_EQ(result, results[0]);
}

// Columns [first, first + count) of a row-major matrix.
Floats Columns(const Floats& matrix, int64_t cols, int64_t first,
               int64_t count) {
  Floats part;
  for (size_t at = 0; at < matrix.size(); at += cols) {
    part.insert(part.end(), matrix.begin() + at + first,
                matrix.begin() + at + first + count);
  }
  return part;
}

Floats Sum(const Floats& a, const Floats& b) {
  Floats sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

// Neighbours pairwise until one is left, as the all-reduce adds ranks.
Floats Tree(std::vector<Floats> planes) {
  while (planes.size() > 1) {
    std::vector<Floats> next;
    for (size_t i = 0; i < planes.size(); i += 2)
      next.push_back(Sum(planes[i], planes[i + 1]));
    planes = next;
  }
  return planes[0];
}

class SlicedProducts : public OpsContract {
 protected:
  static constexpr int64_t T = 5, kCols = 96, kRows = 70;
  static constexpr int64_t E = 4, K = 2, kSharedCols = 48;

  // A rank's term: its columns of the weights, its slices of the tree.
  Floats MatMulSliced(int rank, int ranks,
                      WeightFormat format = WeightFormat::kBf16) {
    const int slices = kContractionSlices / ranks;
    const int64_t n = kCols / ranks;
    const Tensor y = rig_.F32({T, kRows});
    ops_.MatMulSliced(rig_.Act({T, n}, Columns(x_, kCols, rank * n, n)),
                      rig_.Weight(1, kRows, n, Columns(w_, kCols, rank * n, n),
                                  WeightLayout::kPlain, format, slices),
                      slices, y);
    return rig_.Read(y);
  }

  Floats ExpertsDown(int rank, int ranks,
                     WeightFormat format = WeightFormat::kBf16) {
    const int slices = kContractionSlices / ranks;
    const int64_t n = kCols / ranks, shared_n = kSharedCols / ranks;
    const Routing routing = rig_.NewRouting(T, E, K);
    ops_.Route(rig_.F32({T, E}, Noise(3, T * E)), true, routing);
    const Tensor y = rig_.F32({T, kRows});
    ops_.ExpertsDown(
        rig_.Act({T * K, n},
                 Columns(Noise(4, T * K * kCols), kCols, rank * n, n)),
        rig_.Weight(E, kRows, n,
                    Columns(Noise(5, E * kRows * kCols), kCols, rank * n, n),
                    WeightLayout::kPlain, format, slices),
        routing,
        rig_.Act({T, shared_n}, Columns(Noise(6, T * kSharedCols), kSharedCols,
                                        rank * shared_n, shared_n)),
        rig_.Weight(1, kRows, shared_n,
                    Columns(Noise(7, kRows * kSharedCols), kSharedCols,
                            rank * shared_n, shared_n),
                    WeightLayout::kPlain, format, slices),
        rig_.Act({T, 1}, Noise(8, T)), slices, y);
    return rig_.Read(y);
  }

  const Floats x_ = Noise(1, T*kCols), w_ = Noise(2, kRows*kCols);
};

TEST_P(SlicedProducts, OfEightSlicesAreTheTreeOfEightProducts) {
  std::vector<Floats> planes;
  const int64_t n = kCols / kContractionSlices;
  for (int64_t s = 0; s < kContractionSlices; ++s) {
    const Tensor plane = rig_.F32({T, kRows});
    ops_.MatMul(rig_.Act({T, n}, Columns(x_, kCols, s * n, n)),
                rig_.Weight(1, kRows, n, Columns(w_, kCols, s * n, n)), plane);
    planes.push_back(rig_.Read(plane));
  }

  EXPECT_EQ(MatMulSliced(0, 1), Tree(planes));
}

TEST_P(SlicedProducts, AreTheSameOnOneRankAndAddedOverMany) {
  const Floats whole = MatMulSliced(0, 1);

  for (int ranks : {2, 4, 8}) {
    std::vector<Floats> planes;
    for (int rank = 0; rank < ranks; ++rank)
      planes.push_back(MatMulSliced(rank, ranks));
    EXPECT_EQ(Tree(planes), whole) << ranks << " ranks";
  }
}

TEST_P(SlicedProducts, OfExpertsDownAreTheSameOnOneRankAndAddedOverMany) {
  const Floats whole = ExpertsDown(0, 1);

  for (int ranks : {2, 4, 8}) {
    std::vector<Floats> planes;
    for (int rank = 0; rank < ranks; ++rank)
      planes.push_back(ExpertsDown(rank, ranks));
    EXPECT_EQ(Tree(planes), whole) << ranks << " ranks";
  }
}

TEST_P(SlicedProducts, OfInt8AndInt4AreTheSameOnOneRankAndAddedOverMany) {
  for (const WeightFormat format :
       {WeightFormat::kInt8, WeightFormat::kInt4}) {
    const Floats matmul = MatMulSliced(0, 1, format);
    const Floats experts = ExpertsDown(0, 1, format);
    for (int ranks : {2, 4, 8}) {
      std::vector<Floats> matmul_planes, experts_planes;
      for (int rank = 0; rank < ranks; ++rank) {
        matmul_planes.push_back(MatMulSliced(rank, ranks, format));
        experts_planes.push_back(ExpertsDown(rank, ranks, format));
      }
      EXPECT_EQ(Tree(matmul_planes), matmul)
          << WeightFormatName(format) << ", " << ranks << " ranks";
      EXPECT_EQ(Tree(experts_planes), experts)
          << WeightFormatName(format) << ", " << ranks << " ranks";
    }
  }
}

PHALANX_FOR_EVERY_BACKEND(OpsExactnessCuts);
PHALANX_FOR_EVERY_BACKEND(SlicedProducts);

}  // namespace
}  // namespace phalanx
