// Ops in which every token stands for itself: rows in and out, norms,
// elementwise, positions, the places of the cache.

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/kernels/op_programs.h"
#include "tests/kernels/ops_contract.h"

namespace phalanx {
namespace {

constexpr int64_t kItems = 33;
constexpr float kEps = 1e-6f;

// A program whose only part is a row for each item.
OpProgram RowProgram(
    std::string name, Tolerance tolerance,
    std::function<Floats(Rig&, const std::vector<int64_t>&)> run) {
  return {std::move(name),
          kItems,
          {tolerance},
          [run](Rig& rig, const std::vector<int64_t>& items) {
            return Split(run(rig, items), items.size());
          }};
}

Ints AsInts(const std::vector<int64_t>& items, int64_t factor = 1) {
  Ints ints;
  for (int64_t item : items)
    ints.push_back(static_cast<int32_t>(item * factor));
  return ints;
}

OpProgram Embed(int64_t H) {
  return RowProgram(
      absl::StrCat("Embed", H), {}, [=](Rig& rig, const auto& items) {
        const int64_t T = items.size();
        const Tensor y = rig.Act({T, H});
        rig.ops().Embed(rig.I32({T}, AsInts(items)),
                        rig.Bf16({20, H}, Noise(1, 20 * H)), 7, y);
        return rig.Read(y);
      });
}

OpProgram SelectOwner(int64_t H) {
  return RowProgram(
      absl::StrCat("SelectOwner", H), {}, [=](Rig& rig, const auto& items) {
        const int64_t T = items.size();
        Floats gathered;
        for (uint64_t rank = 0; rank < 3; ++rank) {
          const Floats rows = ItemRows(10 + rank, items, H);
          gathered.insert(gathered.end(), rows.begin(), rows.end());
        }
        const Tensor y = rig.Act({T, H});
        rig.ops().SelectOwner(rig.I32({T}, AsInts(items)), 11,
                              rig.Act({3, T, H}, gathered), y);
        return rig.Read(y);
      });
}

OpProgram GatherRows(int64_t H) {
  return RowProgram(
      absl::StrCat("GatherRows", H), {}, [=](Rig& rig, const auto& items) {
        const int64_t R = items.size();
        const Tensor y = rig.Act({R, H});
        rig.ops().GatherRows(
            rig.Act({kItems, H}, ItemRows(2, Range(0, kItems), H)),
            rig.I32({R}, AsInts(items)), y);
        return rig.Read(y);
      });
}

OpProgram Copy(int64_t n) {
  return RowProgram(
      absl::StrCat("Copy", n), {}, [=](Rig& rig, const auto& items) {
        const int64_t T = items.size();
        const Tensor y = rig.Act({T, n});
        rig.ops().Copy(rig.Act({T, n}, ItemRows(22, items, n)), y);
        return rig.Read(y);
      });
}

// D terms >= 0 lose at most D roundings, the root halves that.
Tolerance NormTolerance(int64_t D) { return {kBf16Rounding + Chain(D), 0}; }

OpProgram RmsNorm(int64_t D) {
  return RowProgram(absl::StrCat("RmsNorm", D), NormTolerance(D),
                    [=](Rig& rig, const auto& items) {
                      const int64_t T = items.size();
                      const Tensor y = rig.Act({T, D});
                      rig.ops().RmsNorm(rig.Act({T, D}, ItemRows(3, items, D)),
                                        rig.Param({D}, Noise(4, D)), kEps, y);
                      return rig.Read(y);
                    });
}

OpProgram RmsNormOfHeads(int64_t N, int64_t D) {
  return RowProgram(absl::StrCat("RmsNormOfHeads", N, "x", D), NormTolerance(D),
                    [=](Rig& rig, const auto& items) {
                      const int64_t T = items.size();
                      const Tensor y = rig.Act({T, N, D});
                      rig.ops().RmsNorm(
                          rig.Act({T, N, D}, ItemRows(5, items, N * D)),
                          rig.Param({D}, Noise(6, D)), kEps, y);
                      return rig.Read(y);
                    });
}

OpProgram GatedRmsNorm(int64_t N, int64_t D) {
  return RowProgram(absl::StrCat("GatedRmsNorm", N, "x", D),
                    {NormTolerance(D).of_value + 16 * kF32Rounding, 0},
                    [=](Rig& rig, const auto& items) {
                      const int64_t T = items.size();
                      const Tensor y = rig.Act({T, N, D});
                      rig.ops().GatedRmsNorm(
                          rig.F32({T, N, D}, ItemRows(7, items, N * D)),
                          rig.Act({T, N, D}, ItemRows(8, items, N * D)),
                          rig.Param({D}, Noise(9, D)), kEps, y);
                      return rig.Read(y);
                    });
}

OpProgram L2Norm(int64_t N, int64_t D) {
  return RowProgram(absl::StrCat("L2Norm", N, "x", D), {Chain(D), 0},
                    [=](Rig& rig, const auto& items) {
                      const int64_t T = items.size();
                      const Tensor y = rig.F32({T, N, D});
                      rig.ops().L2Norm(
                          rig.F32({T, N, D}, ItemRows(10, items, N * D)),
                          /*scale=*/0.3f, y);
                      return rig.Read(y);
                    });
}

OpProgram Add(int64_t H) {
  return RowProgram(absl::StrCat("Add", H), {kBf16Rounding + kF32Rounding, 0},
                    [=](Rig& rig, const auto& items) {
                      const int64_t T = items.size();
                      const Tensor y = rig.Act({T, H});
                      rig.ops().Add(rig.Act({T, H}, ItemRows(11, items, H)),
                                    rig.Act({T, H}, ItemRows(12, items, H)), y);
                      return rig.Read(y);
                    });
}

OpProgram Round(int64_t H) {
  return RowProgram(absl::StrCat("Round", H), {kBf16Rounding, 0},
                    [=](Rig& rig, const auto& items) {
                      const int64_t T = items.size();
                      const Tensor y = rig.Act({T, H});
                      // Products of bf16 numbers are none.
                      Floats x = ItemRows(20, items, H);
                      const Floats factor = ItemRows(21, items, H);
                      for (size_t i = 0; i < x.size(); ++i) x[i] *= factor[i];
                      rig.ops().Round(rig.F32({T, H}, x), y);
                      return rig.Read(y);
                    });
}

OpProgram MulSigmoid(int64_t n) {
  return RowProgram(
      absl::StrCat("MulSigmoid", n), {kBf16Rounding + 16 * kF32Rounding, 0},
      [=](Rig& rig, const auto& items) {
        const int64_t T = items.size();
        const Tensor y = rig.Act({T, n});
        rig.ops().MulSigmoid(rig.F32({T, n}, ItemRows(13, items, n)),
                             rig.Act({T, n}, ItemRows(14, items, n)), y);
        return rig.Read(y);
      });
}

OpProgram Rope(int64_t N, int64_t D, int64_t F) {
  // Two products and their sum, each of values up to 1.
  return RowProgram(
      absl::StrCat("Rope", N, "x", D, "of", 2 * F),
      {kBf16Rounding, 16 * kF32Rounding}, [=](Rig& rig, const auto& items) {
        const int64_t T = items.size();
        Floats inv_freq(F);
        for (int64_t i = 0; i < F; ++i) {
          inv_freq[i] = static_cast<float>(
              std::pow(1e7, -static_cast<double>(i) / static_cast<double>(F)));
        }
        const Tensor x = rig.Act({T, N, D}, ItemRows(15, items, N * D));
        rig.ops().Rope(rig.I32({T}, AsInts(items, 8191)),
                       rig.Param({F}, inv_freq), x);
        return rig.Read(x);
      });
}

OpProgram StoreKv(int64_t Nk, int64_t D) {
  return {
      absl::StrCat("StoreKv", Nk, "x", D),
      kItems,
      {{}, {}},
      [=](Rig& rig, const std::vector<int64_t>& items) {
        const int64_t T = items.size();
        const Tensor keys = rig.Act({3, Nk, kKvBlockTokens, D});
        const Tensor values = rig.Act({3, Nk, kKvBlockTokens, D});
        rig.ops().StoreKv(rig.Act({T, Nk, D}, ItemRows(16, items, Nk * D)),
                          rig.Act({T, Nk, D}, ItemRows(17, items, Nk * D)),
                          rig.I32({T}, AsInts(items, 5)), keys, values);
        const Floats k = rig.Read(keys), v = rig.Read(values);
        std::vector<Parts> results;
        for (int64_t item : items) {
          Parts parts(2);
          for (int64_t h = 0; h < Nk; ++h) {
            const int64_t place = item * 5;
            const int64_t at = ((place / 64 * Nk + h) * 64 + place % 64) * D;
            parts[0].insert(parts[0].end(), k.begin() + at, k.begin() + at + D);
            parts[1].insert(parts[1].end(), v.begin() + at, v.begin() + at + D);
          }
          results.push_back(parts);
        }
        return results;
      }};
}

OpProgram GdnGates(int64_t Nv) {
  return {absl::StrCat("GdnGates", Nv),
          kItems,
          {{64 * kF32Rounding, 0}, {32 * kF32Rounding, 0}},
          [=](Rig& rig, const std::vector<int64_t>& items) {
            const int64_t T = items.size();
            const Tensor g = rig.F32({T, Nv}), beta = rig.F32({T, Nv});
            Floats a = ItemRows(18, items, Nv);
            for (float& value : a) value *= 16;
            rig.ops().GdnGates(rig.Act({T, Nv}, a),
                               rig.Act({T, Nv}, ItemRows(19, items, Nv)),
                               rig.Param({Nv}, Noise(20, Nv)),
                               rig.Param({Nv}, Noise(21, Nv)), g, beta);
            const auto gs = Split(rig.Read(g), T);
            const auto betas = Split(rig.Read(beta), T);
            std::vector<Parts> results;
            for (int64_t t = 0; t < T; ++t)
              results.push_back({gs[t][0], betas[t][0]});
            return results;
          }};
}

}  // namespace

std::vector<OpProgram> RowPrograms() {
  return {Embed(64),
          Embed(33),
          SelectOwner(64),
          SelectOwner(33),
          GatherRows(64),
          GatherRows(33),
          Copy(64),
          Copy(33),
          Copy(40000),
          RmsNorm(1),
          RmsNorm(31),
          RmsNorm(80),
          RmsNorm(2048),
          RmsNormOfHeads(3, 24),
          RmsNormOfHeads(2, 256),
          GatedRmsNorm(4, 128),
          GatedRmsNorm(3, 24),
          L2Norm(4, 128),
          L2Norm(2, 24),
          L2Norm(1, 1),
          Add(2048),
          Add(33),
          Round(2048),
          Round(33),
          MulSigmoid(512),
          MulSigmoid(33),
          Rope(4, 256, 32),
          Rope(2, 24, 3),
          Rope(3, 32, 16),
          StoreKv(2, 256),
          StoreKv(1, 24),
          GdnGates(32),
          GdnGates(3)};
}

}  // namespace phalanx
