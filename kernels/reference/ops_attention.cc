// Rotary positions, the paged cache, attention.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/check.h"
#include "kernels/op_checks.h"
#include "kernels/reference/reference_ops.h"

namespace phalanx {
namespace {

// Key or value head h at one position of a sequence.
const float* Cached(Tensor cache, const int32_t* blocks, int64_t position,
                    int64_t h) {
  const int64_t block = blocks[position / kKvBlockTokens];
  CHECK(block >= 0 && block < cache.dims[0]);
  const int64_t D = cache.dims[3];
  return cache.row<float>(block) +
         (h * kKvBlockTokens + position % kKvBlockTokens) * D;
}

// One query head over the first `count` positions of its sequence.
void Attend(const float* q, Tensor keys, Tensor values, const int32_t* blocks,
            int64_t count, int64_t h, float scale, float* y) {
  const int64_t D = keys.dims[3];
  std::vector<double> p(count);
  for (int64_t j = 0; j < count; ++j) {
    const float* k = Cached(keys, blocks, j, h);
    for (int64_t i = 0; i < D; ++i) p[j] += double{q[i]} * k[i];
    p[j] *= scale;
  }
  const double top = *std::max_element(p.begin(), p.end());
  double total = 0;
  std::vector<double> sum(D, 0);
  for (int64_t j = 0; j < count; ++j) {
    const double weight = std::exp(p[j] - top);
    const float* v = Cached(values, blocks, j, h);
    total += weight;
    for (int64_t i = 0; i < D; ++i) sum[i] += weight * v[i];
  }
  for (int64_t i = 0; i < D; ++i) y[i] = static_cast<float>(sum[i] / total);
}

}  // namespace

void ReferenceOps::Rope(Tensor positions, Tensor inv_freq, Tensor x) {
  CheckRope(positions, inv_freq, x, DType::kF32);
  const int64_t F = inv_freq.dims[0], D = x.dims[2];
  for (int64_t t = 0; t < x.dims[0]; ++t) {
    const auto position = static_cast<float>(*positions.row<int32_t>(t));
    for (int64_t i = 0; i < F; ++i) {
      const float angle = position * *inv_freq.row<float>(i);
      const double c = std::cos(double{angle}), s = std::sin(double{angle});
      for (int64_t n = 0; n < x.dims[1]; ++n) {
        float* head = x.row<float>(t) + n * D;
        const double a = head[i], b = head[i + F];
        head[i] = static_cast<float>(a * c - b * s);
        head[i + F] = static_cast<float>(b * c + a * s);
      }
    }
  }
}

void ReferenceOps::StoreKv(Tensor k, Tensor v, Tensor places, Tensor keys,
                           Tensor values) {
  CheckStoreKv(k, v, places, keys, values, DType::kF32);
  const int64_t D = k.dims[2];
  for (int64_t t = 0; t < k.dims[0]; ++t) {
    const int64_t place = *places.row<int32_t>(t);
    CHECK(place >= 0 && place / kKvBlockTokens < keys.dims[0]);
    for (int64_t h = 0; h < k.dims[1]; ++h) {
      const int64_t offset = (h * kKvBlockTokens + place % kKvBlockTokens) * D;
      const int64_t block = place / kKvBlockTokens;
      std::memcpy(keys.row<float>(block) + offset, k.row<float>(t) + h * D,
                  D * sizeof(float));
      std::memcpy(values.row<float>(block) + offset, v.row<float>(t) + h * D,
                  D * sizeof(float));
    }
  }
}

void ReferenceOps::PagedAttention(Tensor q, Tensor keys, Tensor values,
                                  const Sequences& sequences, float scale,
                                  Tensor y) {
  CheckPagedAttention(q, keys, values, sequences, y, DType::kF32);
  const int64_t Nq = q.dims[1], Nk = keys.dims[1], D = q.dims[2];
  for (int64_t s = 0; s < sequences.count(); ++s) {
    const int64_t first = *sequences.first_row.row<int32_t>(s);
    const int64_t end = *sequences.first_row.row<int32_t>(s + 1);
    const int64_t past = *sequences.past.row<int32_t>(s);
    CHECK(0 <= first && first <= end && end <= q.dims[0] && past >= 0);
    CHECK(past + end - first <= sequences.block_table.dims[1] * kKvBlockTokens);
    const int32_t* blocks = sequences.block_table.row<int32_t>(s);
    for (int64_t t = first; t < end; ++t) {
      for (int64_t h = 0; h < Nq; ++h) {
        Attend(q.row<float>(t) + h * D, keys, values, blocks,
               past + t - first + 1, h * Nk / Nq, scale,
               y.row<float>(t) + h * D);
      }
    }
  }
}

}  // namespace phalanx
