#include "worker/numerics_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

constexpr char kDigest[] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST(NumericsId, NamesModelWeightsAndKernels) {
  EXPECT_THAT(NumericsId(kDigest, ModelConfig(), WeightFormat::kBf16, "fma-1"),
              testing::MatchesRegex("0123456789abcdef-[0-9a-f]+/bf16/fma-1"));
}

TEST(NumericsId, SaysWhichArithmeticQuantised) {
  EXPECT_THAT(
      NumericsId(kDigest, ModelConfig(), WeightFormat::kInt4, "bf16dot-2"),
      testing::HasSubstr("/int4-1/bf16dot-2"));
}

// Equal weights under an edited config.json compute other bytes.
TEST(NumericsId, DiffersWhereTheConfigComputesOtherwise) {
  ModelConfig edited;
  edited.rope_theta = 1e6;

  EXPECT_NE(NumericsId(kDigest, edited, WeightFormat::kBf16, "fma-1"),
            NumericsId(kDigest, ModelConfig(), WeightFormat::kBf16, "fma-1"));
}

}  // namespace
}  // namespace phalanx
