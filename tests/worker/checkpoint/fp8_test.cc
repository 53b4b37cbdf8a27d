#include "worker/checkpoint/fp8.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <cmath>

#include "kernels/bf16.h"
#include "tests/support/golden_file.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/matrix_pieces.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

const GoldenFile& Ops() {
  static const GoldenFile file(GOLDEN_DIR "/ops/ops.safetensors");
  return file;
}

TEST(Fp8E4M3ToF32, DecodesAllCodesAsTheGoldenFile) {
  const GoldenTensor golden = Ops().Get("fp8_e4m3_decode.0.values");
  ASSERT_EQ(golden.elements(), 256);
  for (int code = 0; code < 256; ++code) {
    const float ours = Fp8E4M3ToF32(static_cast<uint8_t>(code));
    const double theirs = golden.values[static_cast<size_t>(code)];
    if (std::isnan(theirs))
      EXPECT_TRUE(std::isnan(ours)) << code;
    else
      EXPECT_EQ(ours, theirs) << code;
    EXPECT_EQ(std::signbit(ours), !std::isnan(theirs) && code >= 128) << code;
  }
}

TEST(Fp8Blocks, AreThoseThatARangeTouches) {
  EXPECT_EQ(Fp8Blocks({0, 128}), (Range{0, 1}));
  EXPECT_EQ(Fp8Blocks({64, 129}), (Range{0, 2}));
  EXPECT_EQ(Fp8Blocks({192, 256}), (Range{1, 2}));
}

// Products of all codes, in their order, with one multiplier.
std::vector<uint16_t> AllProducts(uint16_t multiplier) {
  std::string codes(256, ' ');
  for (int code = 0; code < 256; ++code)
    codes[static_cast<size_t>(code)] = static_cast<char>(code);
  const uint16_t scales[] = {multiplier, multiplier};
  std::vector<uint16_t> out(256);
  DequantiseFp8({.codes = AsBytes(codes),
                 .scales = std::as_bytes(std::span(scales)),
                 .rows = 1,
                 .cols = 256},
                {0, 1}, {0, 256}, out.data(), 256);
  return out;
}

// One multiplication and one rounding, code by code.
std::vector<uint16_t> PlainProducts(uint16_t multiplier) {
  std::vector<uint16_t> out;
  for (int code = 0; code < 256; ++code)
    out.push_back(F32ToBf16(Fp8E4M3ToF32(static_cast<uint8_t>(code)) *
                            Bf16ToF32(multiplier)));
  return out;
}

constexpr int kMultipliers = 1 << 16;  // Denormals, infinities and NaNs too.

TEST(DequantiseFp8, RoundsTheProductForEveryCodeAndMultiplier) {
  for (int bits = 0; bits < kMultipliers; ++bits) {
    const auto multiplier = static_cast<uint16_t>(bits);
    ASSERT_EQ(AllProducts(multiplier), PlainProducts(multiplier)) << bits;
  }
}

// The pool's threads flush denormals, and so does the thread that made it.
TEST(DequantiseFp8, IsTheSameWhereDenormalsAreFlushed) {
  constexpr unsigned kFlushBits = 0x8040;  // FTZ and DAZ.
  for (int bits = 0; bits < kMultipliers; ++bits) {
    const auto multiplier = static_cast<uint16_t>(bits);
    const std::vector<uint16_t> expected = AllProducts(multiplier);
    const unsigned kept = _mm_getcsr();
    _mm_setcsr(kept | kFlushBits);
    const std::vector<uint16_t> flushed = AllProducts(multiplier);
    _mm_setcsr(kept);
    ASSERT_EQ(flushed, expected) << bits;
  }
}

StoredTensor AsStored(const TensorSpec& tensor) {
  return {
      .name = "",
      .type = tensor.dtype == "BF16" ? StoredType::kBf16 : StoredType::kF8E4M3,
      .shape = tensor.shape,
      .data = AsBytes(tensor.data)};
}

// The slice of an FP8 matrix as row-major bf16.
std::vector<uint16_t> Dequantised(const TensorSpec& weight,
                                  const TensorSpec& scale,
                                  const TensorSlice& slice) {
  const StoredTensor scales = AsStored(scale);
  const MatrixPiece piece = MakePiece(AsStored(weight), &scales, slice);
  std::vector<uint16_t> scratch;
  const uint16_t* data =
      Assemble({&piece, 1}, piece.piece_rows(), piece.piece_cols(), &scratch);
  return {data, data + piece.piece_rows() * piece.piece_cols()};
}

// A golden tensor's values as bytes: codes, or bf16.
TensorSpec SpecOf(const std::string& name, bool codes) {
  const GoldenTensor golden = Ops().Get(name);
  TensorSpec spec{codes ? "F8_E4M3" : "BF16", golden.shape, ""};
  for (const double value : golden.values) {
    const uint16_t bits = codes ? static_cast<uint16_t>(value)
                                : F32ToBf16(static_cast<float>(value));
    spec.data.append(reinterpret_cast<const char*>(&bits), codes ? 1 : 2);
  }
  return spec;
}

TEST(Fp8Pieces, AreTheGoldenBlocksDequantised) {
  for (const char* name : {"fp8_block_dequantise.0.", "fp8_block_dequantise.1.",
                           "fp8_block_dequantise.2."}) {
    const std::string prefix = name;
    const std::vector<uint16_t> ours =
        Dequantised(SpecOf(prefix + "codes", true),
                    SpecOf(prefix + "scale_inv", false), TensorSlice());
    const GoldenTensor golden = Ops().Get(prefix + "y_bf16");
    ASSERT_EQ(static_cast<int64_t>(ours.size()), golden.elements());
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_EQ(Bf16ToF32(ours[i]), golden.values[i]) << prefix << i;
  }
}

// 130 x 200: the last blocks of both dimensions are short.
TEST(Fp8Pieces, AreTheSameCutBeforeAndAfter) {
  const TensorSpec weight = SpecOf("fp8_block_dequantise.0.codes", true);
  const TensorSpec scale = SpecOf("fp8_block_dequantise.0.scale_inv", false);
  const std::vector<uint16_t> whole = Dequantised(weight, scale, TensorSlice());
  const TensorSpec plain{
      "BF16",
      weight.shape,
      {reinterpret_cast<const char*>(whole.data()), 2 * whole.size()}};
  for (const TensorSlice& slice :
       {TensorSlice{.dim = 0, .ranges = {{0, 1}, {100, 129}, {129, 130}}},
        TensorSlice{.dim = 1, .ranges = {{3, 5}, {100, 200}}}}) {
    const std::vector<uint16_t> ours = Dequantised(weight, scale, slice);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(ours.data()),
                          2 * ours.size()),
              SliceBytes(plain, slice));
  }
}

// One rank's entry of the golden file: which multipliers a slice reads, and
// what it comes to.
void CompareWithGolden(const nlohmann::json& entry, const TensorSpec& weight,
                       const TensorSpec& scale, const TensorSlice& slice) {
  std::vector<Range> ranges = slice.ranges;
  if (slice.dim == TensorSlice::kWhole) ranges = {{0, weight.shape[0]}};
  ASSERT_EQ(entry["scales"].size(), ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    const nlohmann::json& golden = entry["scales"][i];
    const Range blocks = Fp8Blocks(ranges[i]);
    EXPECT_THAT(golden["scale_range"].get<std::vector<int64_t>>(),
                ElementsAre(blocks.begin, blocks.end));
    EXPECT_EQ(golden["offset"], ranges[i].begin % kFp8Block);
    EXPECT_EQ(golden["sha256"].get<std::string>(),
              Sha256(SliceBytes(
                  scale, {.dim = std::max(slice.dim, 0), .ranges = {blocks}})));
  }
  const std::vector<uint16_t> ours = Dequantised(weight, scale, slice);
  EXPECT_EQ(
      entry["dequantised_bf16_sha256"].get<std::string>(),
      Sha256({reinterpret_cast<const char*>(ours.data()), 2 * ours.size()}));
}

TEST(Fp8Pieces, MatchTheGoldenSlicesOfEveryRank) {
  const std::string model_dir = GOLDEN_DIR "/models/moe_fp8";
  const nlohmann::json golden = ReadJson(GOLDEN_DIR "/tp/moe_fp8.json");
  const TensorSpecs tensors = ReadTensors(model_dir);
  const auto config = LoadModelConfig(model_dir);
  ASSERT_OK(config);
  int compared = 0;
  for (const int tp_size : {1, 2, 4, 8}) {
    for (int rank = 0; rank < tp_size; ++rank) {
      const auto shape = MakeLocalShape(*config, rank, tp_size);
      ASSERT_OK(shape);
      for (const auto& [name, entry] :
           golden[std::to_string(tp_size)][static_cast<size_t>(rank)].items()) {
        if (!entry.contains("scales")) continue;
        SCOPED_TRACE(name + " of rank " + std::to_string(rank) + " of " +
                     std::to_string(tp_size));
        CompareWithGolden(entry, tensors.at(name),
                          tensors.at(name + "_scale_inv"),
                          *SliceOfName(name, *config, *shape));
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 15 * 55);
}

}  // namespace
}  // namespace phalanx
