#include "worker/numerics_id.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

constexpr char kDigest[] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

TEST(NumericsId, NamesModelWeightsAndKernels) {
  EXPECT_EQ(NumericsId(kDigest, WeightFormat::kBf16, "fma-1"),
            "0123456789abcdef/bf16/fma-1");
}

TEST(NumericsId, SaysWhichArithmeticQuantised) {
  EXPECT_EQ(NumericsId(kDigest, WeightFormat::kInt4, "bf16dot-2"),
            "0123456789abcdef/int4-1/bf16dot-2");
}

}  // namespace
}  // namespace phalanx
