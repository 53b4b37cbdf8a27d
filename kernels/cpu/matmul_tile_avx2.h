#ifndef PHALANX_KERNELS_CPU_MATMUL_TILE_AVX2_H_
#define PHALANX_KERNELS_CPU_MATMUL_TILE_AVX2_H_

// Kernel family fma for AVX2: FmaDot::Dot of matmul_tile.h, which alone
// includes this. Sixteen registers of eight lanes hold twelve chains at a time,
// so a block of rows and outputs is done in pieces; a chain is never cut.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace phalanx::PHALANX_ISA {

inline constexpr int kAvx2Lanes = 8;
inline constexpr int kAvx2Chains = 12;
inline constexpr int kAvx2TileVectors = kTileOutputs / kAvx2Lanes;

// Rows of a piece: more would leave less than two vectors of outputs, which a
// broadcast of x must serve.
constexpr int Avx2PieceRows(int rows) {
  return rows <= 6 ? rows : (rows + 1) / 2;
}

// Vectors of outputs of a piece of `rows` rows, of `vectors` in all.
constexpr int Avx2PieceVectors(int rows, int vectors) {
  const int most = rows == 1 ? 8 : rows <= 3 ? 4 : 2;
  return most < vectors ? most : vectors;
}

// A piece of a block of kBlockRows rows: kRows of them from first_row on, times
// kVectors vectors of outputs from first_vector on.
template <int kBlockRows, int kRows, int kVectors>
inline void Avx2Piece(const std::byte* panel, const std::byte* tile,
                      const WeightView& view, int slice, Ahead ahead,
                      int first_row, int first_vector, float* out,
                      int64_t row_floats) {
  static_assert(kRows * kVectors <= kAvx2Chains);
  __m256 acc[kRows][kVectors];
  for (auto& row : acc)
    for (__m256& a : row) a = _mm256_setzero_ps();
  const __m256i high_half = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  const int64_t tile_elements = view.tile_bytes / 2;
  const int64_t x_offset = first_row * kPanelStride;

  ForColumnPairs<kBlockRows, float>(
      panel, tile, view, slice, [&](const float* x, const uint16_t* w) {
        for (int v = 0; v < kVectors; ++v) {
          const int vector = first_vector + v;
          const uint16_t* at = w + vector / kAvx2TileVectors * tile_elements +
                               vector % kAvx2TileVectors * 2 * kAvx2Lanes;
          // Two vectors are a line.
          const int in_tile = vector % kAvx2TileVectors;
          if (kBlockRows > kStreamRows && in_tile % 2 == 0)
            _mm_prefetch(reinterpret_cast<const char*>(
                             w + vector / kAvx2TileVectors * tile_elements) +
                             (in_tile == 0 ? ahead.one : ahead.other),
                         _MM_HINT_T1);
          const __m256i pair =
              _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
          const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16));
          const __m256 odd =
              _mm256_castsi256_ps(_mm256_and_si256(pair, high_half));
          for (int r = 0; r < kRows; ++r) {
            const float* xr = x + x_offset + r * kPanelStride;
            acc[r][v] =
                _mm256_fmadd_ps(_mm256_broadcast_ss(xr), even, acc[r][v]);
            acc[r][v] =
                _mm256_fmadd_ps(_mm256_broadcast_ss(xr + 1), odd, acc[r][v]);
          }
        }
      });

  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      _mm256_storeu_ps(
          out + (first_row + r) * row_floats + (first_vector + v) * kAvx2Lanes,
          acc[r][v]);
    }
  }
}

template <int kBlockRows, int kRows, int kTiles>
inline void Avx2Rows(const std::byte* panel, const std::byte* tile,
                     const WeightView& view, int slice, Ahead ahead,
                     int first_row, float* out) {
  constexpr int kAll = kTiles * kAvx2TileVectors;
  constexpr int kVectors = Avx2PieceVectors(kRows, kAll);
  static_assert(kAll % kVectors == 0);
  for (int v = 0; v < kAll; v += kVectors) {
    Avx2Piece<kBlockRows, kRows, kVectors>(panel, tile, view, slice, ahead,
                                           first_row, v, out,
                                           kTiles * kTileOutputs);
  }
}

template <int kRows, int kTiles>
void FmaDot::Dot(const std::byte* panel, const std::byte* tile,
                 const WeightView& view, int slice, Ahead ahead, float* out) {
  constexpr int kPiece = Avx2PieceRows(kRows);
  Avx2Rows<kRows, kPiece, kTiles>(panel, tile, view, slice, ahead, 0, out);
  if constexpr (kPiece < kRows)
    Avx2Rows<kRows, kRows - kPiece, kTiles>(panel, tile, view, slice, ahead,
                                            kPiece, out);
}

}  // namespace phalanx::PHALANX_ISA

#endif  // PHALANX_KERNELS_CPU_MATMUL_TILE_AVX2_H_
