// int8 and int4 weights: which matrices they are, that their codes and scales
// are those of the bf16 rows, and that cutting a tensor cuts its codes and
// scales and changes neither.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/quantise.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "worker/checkpoint/loader.h"

namespace phalanx {
namespace {

struct Loaded {
  FakeBackend backend;
  ModelConfig config;
  LocalShape shape;
  Weights weights;
};

struct Place {
  int rank = 0;
  int tp_size = 1;
};

void Load(const std::string& model, WeightFormat format, Place place,
          Loaded* out) {
  const std::string folder = GOLDEN_DIR "/models/" + model;
  out->config = LoadModelConfig(folder).value();
  out->shape = MakeLocalShape(out->config, place.rank, place.tp_size).value();
  const Checkpoint checkpoint = Checkpoint::Open(folder).value();
  auto weights = LoadWeights(checkpoint, out->config, out->shape, out->backend,
                             {.format = format});
  ASSERT_OK(weights);
  out->weights = *std::move(weights);
}

// A matrix, and which of its dimensions ranks share.
struct Named {
  enum Cut { kRows, kCols, kNot };
  std::string name;
  const PackedWeight* weight;
  bool quantised = true;
  // Of plain rows only: parts of fused ones are cut one by one.
  Cut cut = kNot;
};

std::vector<Named> Matrices(const Weights& weights) {
  std::vector<Named> all = {{"lm_head", &weights.lm_head, true, Named::kRows}};
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const std::string layer = std::to_string(i) + ".";
    const auto add = [&](const char* name, const PackedWeight& weight,
                         bool quantised, Named::Cut cut = Named::kNot) {
      all.push_back({layer + name, &weight, quantised, cut});
    };
    if (const auto* gdn = std::get_if<GdnWeights>(&weights.layers[i].mixer)) {
      add("in_proj", gdn->in_proj, true);
      add("ba_proj", gdn->ba_proj, false);
      add("out_proj", gdn->out_proj, true, Named::kCols);
    } else {
      const auto& attention =
          std::get<AttentionWeights>(weights.layers[i].mixer);
      add("qgkv", attention.qgkv, true);
      add("o", attention.o, true, Named::kCols);
    }
    if (const auto* mlp =
            std::get_if<MlpWeights>(&weights.layers[i].feed_forward)) {
      add("gate_up", mlp->gate_up, true);
      add("down", mlp->down, true, Named::kCols);
      continue;
    }
    const auto& moe = std::get<MoeWeights>(weights.layers[i].feed_forward);
    add("router", moe.router, false);
    add("experts_gate_up", moe.experts_gate_up, true);
    add("experts_down", moe.experts_down, true, Named::kCols);
    add("shared_gate_up", moe.shared_gate_up, true);
    add("shared_down", moe.shared_down, true, Named::kCols);
    add("shared_gate", moe.shared_gate, false);
  }
  return all;
}

// What FakeBackend holds of one quantised matrix, and one of bf16.
const uint8_t* CodesOf(const PackedWeight& w, int64_t index) {
  return static_cast<const uint8_t*>(w.storage.data()) + index * w.matrix_bytes;
}
const uint8_t* ScalesOf(const PackedWeight& w, int64_t index) {
  return CodesOf(w, index) + w.rows * w.cols;
}
int64_t GroupsIn(const PackedWeight& w) {
  return GroupsOf(w.cols, w.slices).count;
}

// A block of a row-major matrix of bytes.
std::string Block(const uint8_t* bytes, int64_t row_bytes, int64_t first_row,
                  int64_t rows, int64_t first, int64_t count) {
  std::string block;
  for (int64_t row = first_row; row < first_row + rows; ++row)
    block.append(reinterpret_cast<const char*>(bytes) + row * row_bytes + first,
                 static_cast<size_t>(count));
  return block;
}

struct Case {
  const char* model;
  WeightFormat format;
  int most_ranks = 8;
};

class LoadFormats : public testing::TestWithParam<Case> {};

TEST_P(LoadFormats, QuantisesTheLargeMatricesAndLeavesTheDelicateOnes) {
  Loaded loaded;
  Load(GetParam().model, GetParam().format, {}, &loaded);

  for (const Named& matrix : Matrices(loaded.weights))
    EXPECT_EQ(matrix.weight->format,
              matrix.quantised ? GetParam().format : WeightFormat::kBf16)
        << matrix.name;
}

TEST_P(LoadFormats, TheCodesAreThoseOfTheBf16Rows) {
  Loaded plain, loaded;
  Load(GetParam().model, WeightFormat::kBf16, {1, 2}, &plain);
  Load(GetParam().model, GetParam().format, {1, 2}, &loaded);
  const std::vector<Named> bf16 = Matrices(plain.weights);
  const std::vector<Named> ours = Matrices(loaded.weights);
  ASSERT_EQ(bf16.size(), ours.size());

  for (size_t i = 0; i < ours.size(); ++i) {
    if (!ours[i].quantised) continue;
    const PackedWeight& w = *ours[i].weight;
    std::vector<uint8_t> codes(static_cast<size_t>(w.cols));
    std::vector<uint16_t> scales(static_cast<size_t>(GroupsIn(w)));
    const auto* rows =
        static_cast<const uint16_t*>(bf16[i].weight->storage.data());
    for (int64_t m = 0; m < w.count; ++m)
      for (int64_t row = 0; row < w.rows; ++row) {
        QuantiseWeightRow(rows + (m * w.rows + row) * w.cols, w.cols, w.slices,
                          w.format, codes.data(), scales.data());
        ASSERT_EQ(std::memcmp(CodesOf(w, m) + row * w.cols, codes.data(),
                              codes.size()),
                  0)
            << ours[i].name << " " << m << " " << row;
        ASSERT_EQ(std::memcmp(ScalesOf(w, m) + row * 2 * GroupsIn(w),
                              scales.data(), 2 * scales.size()),
                  0)
            << ours[i].name << " " << m << " " << row;
      }
  }
}

TEST_P(LoadFormats, ARanksCodesAndScalesAreAPieceOfTheWholeTensors) {
  Loaded whole;
  Load(GetParam().model, GetParam().format, {}, &whole);
  const std::vector<Named> all = Matrices(whole.weights);
  for (int tp_size = 2; tp_size <= GetParam().most_ranks; tp_size *= 2) {
    for (int rank = 0; rank < tp_size; rank += tp_size - 1) {
      Loaded part;
      Load(GetParam().model, GetParam().format, {rank, tp_size}, &part);
      const std::vector<Named> ours = Matrices(part.weights);
      for (size_t i = 0; i < ours.size(); ++i) {
        if (ours[i].cut == Named::kNot) continue;
        const PackedWeight& w = *ours[i].weight;
        const PackedWeight& from = *all[i].weight;
        const bool cols = ours[i].cut == Named::kCols;
        const int64_t row = cols ? 0 : rank * w.rows;
        const int64_t rows = std::min(w.rows, from.rows - row);
        const int64_t groups = GroupsIn(w);
        ASSERT_EQ(cols ? groups * tp_size : groups, GroupsIn(from));
        for (int64_t m = 0; m < w.count; ++m) {
          EXPECT_EQ(Block(CodesOf(w, m), w.cols, 0, rows, 0, w.cols),
                    Block(CodesOf(from, m), from.cols, row, rows,
                          cols ? rank * w.cols : 0, w.cols))
              << ours[i].name << " rank " << rank << " of " << tp_size;
          EXPECT_EQ(Block(ScalesOf(w, m), 2 * groups, 0, rows, 0, 2 * groups),
                    Block(ScalesOf(from, m), 2 * GroupsIn(from), row, rows,
                          cols ? rank * 2 * groups : 0, 2 * groups))
              << ours[i].name << " rank " << rank << " of " << tp_size;
        }
      }
    }
  }
}

TEST_P(LoadFormats, ProgressCountsTheBf16ThatIsRead) {
  const std::string folder =
      GOLDEN_DIR "/models/" + std::string(GetParam().model);
  const ModelConfig config = LoadModelConfig(folder).value();
  const LocalShape shape = MakeLocalShape(config, 0, 1).value();
  const Checkpoint checkpoint = Checkpoint::Open(folder).value();
  const auto total = [&](WeightFormat format) {
    FakeBackend backend;
    LoadProgress last;
    EXPECT_OK(LoadWeights(
        checkpoint, config, shape, backend,
        {.format = format, .run = {.on_progress = [&](const LoadProgress& now) {
                             last = now;
                           }}}));
    EXPECT_EQ(last.done_bytes, last.total_bytes);
    return last.total_bytes;
  };

  EXPECT_EQ(total(GetParam().format), total(WeightFormat::kBf16));
}

INSTANTIATE_TEST_SUITE_P(Models, LoadFormats,
                         testing::Values(Case{"moe", WeightFormat::kInt8},
                                         Case{"moe", WeightFormat::kInt4},
                                         Case{"moe_text", WeightFormat::kInt8,
                                              2},
                                         Case{"moe_fp8", WeightFormat::kInt8},
                                         Case{"moe_fp8", WeightFormat::kInt4},
                                         Case{"next", WeightFormat::kInt4, 4},
                                         Case{"dense", WeightFormat::kInt8, 4}),
                         [](const testing::TestParamInfo<Case>& info) {
                           return std::string(info.param.model) + "_" +
                                  WeightFormatName(info.param.format);
                         });

}  // namespace
}  // namespace phalanx
