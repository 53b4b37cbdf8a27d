// Matrix products, dense and of experts.

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/kernels/op_programs.h"
#include "tests/kernels/ops_contract.h"

namespace phalanx {
namespace {

constexpr int64_t kItems = 33;

// Gate and up are rounded, then their product. SiLU multiplies a relative
// error by 1 + |gate| at most, which is below 3 for these inputs.
Tolerance GateUpTolerance(int64_t cols) {
  return {5 * kBf16Rounding, 4 * Chain(cols)};
}

// In the names of programs, as backends name what they lack.
std::string Suffix(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return "";
    case WeightFormat::kInt8:
      return "Int8";
    case WeightFormat::kInt4:
      return "Int4";
  }
  return "";
}

// Of one product in f32. Of whole numbers every step is prescribed, so that
// all backends, the reference too, must agree to the bit.
double ChainOf(WeightFormat format, int64_t cols) {
  return format == WeightFormat::kBf16 ? Chain(cols) : 0;
}

OpProgram MatMul(int64_t cols, int64_t rows, bool to_f32,
                 WeightFormat format = WeightFormat::kBf16) {
  const Tolerance tolerance = {to_f32 ? 0 : kBf16Rounding,
                               ChainOf(format, cols)};
  return {absl::StrCat("MatMul", cols, "to", rows, to_f32 ? "f32" : "",
                       Suffix(format)),
          kItems,
          {tolerance},
          [=](Rig& rig, const std::vector<int64_t>& items) {
            const int64_t T = items.size();
            const Tensor y = to_f32 ? rig.F32({T, rows}) : rig.Act({T, rows});
            rig.ops().MatMul(
                rig.Act({T, cols}, ItemRows(1, items, cols)),
                rig.Weight(1, rows, cols, WeightNoise(2, rows * cols, cols),
                           WeightLayout::kPlain, format),
                y);
            return Split(rig.Read(y), items.size());
          }};
}

OpProgram GateUp(int64_t cols, int64_t I,
                 WeightFormat format = WeightFormat::kBf16) {
  return {absl::StrCat("GateUp", cols, "to", I, Suffix(format)),
          kItems,
          {GateUpTolerance(cols)},
          [=](Rig& rig, const std::vector<int64_t>& items) {
            const int64_t T = items.size();
            const Tensor y = rig.Act({T, I});
            rig.ops().GateUp(
                rig.Act({T, cols}, ItemRows(3, items, cols)),
                rig.Weight(1, 2 * I, cols, WeightNoise(4, 2 * I * cols, cols),
                           WeightLayout::kGateUp, format),
                y);
            return Split(rig.Read(y), items.size());
          }};
}

OpProgram MatMulSliced(int64_t cols, int64_t rows, int slices,
                       WeightFormat format = WeightFormat::kBf16) {
  return {absl::StrCat("MatMulSliced", cols, "to", rows, "by", slices,
                       Suffix(format)),
          kItems,
          {{0, ChainOf(format, cols)}},
          [=](Rig& rig, const std::vector<int64_t>& items) {
            const int64_t T = items.size();
            const Tensor y = rig.F32({T, rows});
            rig.ops().MatMulSliced(
                rig.Act({T, cols}, ItemRows(5, items, cols)),
                rig.Weight(1, rows, cols, WeightNoise(6, rows * cols, cols),
                           WeightLayout::kPlain, format, slices),
                slices, y);
            return Split(rig.Read(y), items.size());
          }};
}

Routing RouteItems(Rig& rig, const std::vector<int64_t>& items, int64_t E,
                   int64_t K, bool renormalise) {
  const int64_t T = items.size();
  Floats logits = ItemRows(7, items, E);
  for (float& logit : logits) logit *= 4;
  const Routing routing = rig.NewRouting(T, E, K);
  rig.ops().Route(rig.F32({T, E}, logits), renormalise, routing);
  return routing;
}

// E terms >= 0, each an exponential of a difference up to 8.
double RouteTolerance(int64_t E) { return Chain(E) + 32 * kF32Rounding; }

OpProgram Route(int64_t E, int64_t K, bool renormalise) {
  return {
      absl::StrCat("Route", K, "of", E, renormalise ? "renormalised" : ""),
      kItems,
      {{}, {RouteTolerance(E), 0}},
      [=](Rig& rig, const std::vector<int64_t>& items) {
        const Routing routing = RouteItems(rig, items, E, K, renormalise);
        const Ints experts = rig.ReadInts(routing.expert);
        const Floats weights = rig.Read(routing.weight);
        std::vector<Parts> results;
        for (size_t t = 0; t < items.size(); ++t) {
          results.push_back(
              {Floats(experts.begin() + t * K, experts.begin() + (t + 1) * K),
               Floats(weights.begin() + t * K, weights.begin() + (t + 1) * K)});
        }
        return results;
      }};
}

OpProgram ExpertsGateUp(int64_t E, int64_t K, int64_t cols, int64_t I,
                        WeightFormat format = WeightFormat::kBf16) {
  return {
      absl::StrCat("ExpertsGateUp", K, "of", E, "x", cols, "to", I,
                   Suffix(format)),
      kItems,
      {GateUpTolerance(cols)},
      [=](Rig& rig, const std::vector<int64_t>& items) {
        const int64_t T = items.size();
        const Tensor hidden = rig.Act({T * K, I});
        rig.ops().ExpertsGateUp(
            rig.Act({T, cols}, ItemRows(8, items, cols)),
            rig.Weight(E, 2 * I, cols, WeightNoise(9, E * 2 * I * cols, cols),
                       WeightLayout::kGateUp, format),
            RouteItems(rig, items, E, K, true), hidden);
        return Split(rig.Read(hidden), items.size());
      }};
}

struct DownSizes {
  int64_t E, K, I, Is, H;
  int slices;
  WeightFormat format = WeightFormat::kBf16;
};

OpProgram ExpertsDown(DownSizes sizes) {
  const auto [E, K, I, Is, H, slices, format] = sizes;
  const Tolerance tolerance = {0, Chain(K * I + Is) + RouteTolerance(E)};
  return {absl::StrCat("ExpertsDown", K, "of", E, "x", I, "and", Is, "to", H,
                       "by", slices, Suffix(format)),
          kItems,
          {tolerance},
          [sizes](Rig& rig, const std::vector<int64_t>& items) {
            const auto [E, K, I, Is, H, slices, format] = sizes;
            const int64_t T = items.size();
            const Tensor y = rig.F32({T, H});
            rig.ops().ExpertsDown(
                rig.Act({T * K, I}, ItemRows(10, items, K * I)),
                rig.Weight(E, H, I, WeightNoise(11, E * H * I, I),
                           WeightLayout::kPlain, format, slices),
                RouteItems(rig, items, E, K, true),
                rig.Act({T, Is}, ItemRows(12, items, Is)),
                rig.Weight(1, H, Is, WeightNoise(13, H * Is, Is),
                           WeightLayout::kPlain, format, slices),
                rig.Act({T, 1}, ItemRows(14, items, 1)), slices, y);
            return Split(rig.Read(y), items.size());
          }};
}

}  // namespace

std::vector<OpProgram> ProductPrograms() {
  std::vector<OpProgram> programs = {MatMul(2, 1, true),
          MatMul(2048, 96, true),
          MatMul(2048, 96, false),
          MatMul(66, 33, false),
          MatMul(66, 33, true),
          MatMul(62, 130, false),
          GateUp(256, 64),
          GateUp(66, 17),
          GateUp(2, 1),
          MatMulSliced(1024, 80, 8),
          MatMulSliced(48, 33, 8),
          MatMulSliced(16, 5, 4),
          MatMulSliced(36, 70, 2),
          MatMulSliced(62, 31, 1),
          Route(256, 8, true),
          Route(12, 3, false),
          Route(5, 5, true),
          Route(1, 1, true),
          ExpertsGateUp(16, 4, 128, 32),
          ExpertsGateUp(12, 3, 80, 49),
          ExpertsDown({16, 4, 64, 64, 96, 8}),
          ExpertsDown({12, 3, 96, 48, 80, 2}),
          ExpertsDown({8, 2, 64, 32, 33, 4}),
          ExpertsDown({4, 1, 6, 2, 17, 1})};
  for (const WeightFormat format :
       {WeightFormat::kInt8, WeightFormat::kInt4}) {
    const OpProgram quantised[] = {
        MatMul(2048, 96, true, format), MatMul(66, 33, false, format),
        MatMul(260, 70, true, format), GateUp(66, 17, format),
        // Groups of 6; of 128, 128 and 4.
        MatMulSliced(48, 33, 8, format), MatMulSliced(520, 40, 2, format),
        ExpertsGateUp(12, 3, 80, 49, format),
        ExpertsDown({12, 3, 96, 48, 80, 8, format})};
    programs.insert(programs.end(), std::begin(quantised),
                    std::end(quantised));
  }
  return programs;
}

}  // namespace phalanx
