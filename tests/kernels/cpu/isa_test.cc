#include "kernels/cpu/isa.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

CpuFeatures EmeraldRapids() {
  CpuFeatures cpu;
  cpu.vendor = "GenuineIntel";
  cpu.name = "Xeon";
  cpu.family = 6;
  cpu.model = 207;
  cpu.avx2 = true;
  cpu.avx512 = true;
  cpu.avx512_bf16 = true;
  return cpu;
}

CpuFeatures Zen(int family, bool avx512) {
  CpuFeatures cpu;
  cpu.vendor = "AuthenticAMD";
  cpu.name = "EPYC";
  cpu.family = family;
  cpu.avx2 = true;
  cpu.avx512 = avx512;
  cpu.avx512_bf16 = avx512;
  return cpu;
}

TEST(ChooseIsa, TakesTheBestTheProcessorHas) {
  EXPECT_EQ(*ChooseIsa(EmeraldRapids(), nullptr), Isa::kAvx512);
  EXPECT_EQ(*ChooseIsa(Zen(0x17, false), nullptr), Isa::kAvx2);
  EXPECT_EQ(*ChooseIsa(CpuFeatures(), nullptr), Isa::kPortable);
}

TEST(ChooseIsa, TakesALowerOneThatIsForced) {
  EXPECT_EQ(*ChooseIsa(EmeraldRapids(), "portable"), Isa::kPortable);
  EXPECT_EQ(*ChooseIsa(EmeraldRapids(), "avx2"), Isa::kAvx2);
}

TEST(ChooseIsa, TakesAnEmptyValueAsNone) {
  EXPECT_EQ(*ChooseIsa(EmeraldRapids(), ""), Isa::kAvx512);
}

TEST(ChooseIsa, RefusesOneThatTheProcessorLacks) {
  EXPECT_THAT(ChooseIsa(Zen(0x17, false), "avx512"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("PHALANX_ISA is avx512")));
}

TEST(ChooseIsa, RefusesAnUnknownName) {
  EXPECT_THAT(
      ChooseIsa(EmeraldRapids(), "avx9"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("\"avx9\"; must be avx512, avx2 or portable")));
}

TEST(ChooseKernelFamily, IsBf16DotOnZen4And5) {
  EXPECT_EQ(ChooseKernelFamily(Zen(0x19, true), Isa::kAvx512),
            KernelFamily::kBf16Dot);
  EXPECT_EQ(ChooseKernelFamily(Zen(0x1a, true), Isa::kAvx512),
            KernelFamily::kBf16Dot);
}

TEST(ChooseKernelFamily, IsFmaOnZen3) {
  EXPECT_EQ(ChooseKernelFamily(Zen(0x19, false), Isa::kAvx2),
            KernelFamily::kFma);
}

TEST(ChooseKernelFamily, IsFmaOnIntelWhereTheInstructionIsSlow) {
  EXPECT_EQ(ChooseKernelFamily(EmeraldRapids(), Isa::kAvx512),
            KernelFamily::kFma);
}

TEST(ChooseKernelFamily, IsFmaWhereALowerSetIsForced) {
  EXPECT_EQ(ChooseKernelFamily(Zen(0x1a, true), Isa::kPortable),
            KernelFamily::kFma);
}

TEST(DetectCpu, KnowsTheMakerOfTheProcessor) {
  EXPECT_EQ(DetectCpu().vendor.size(), 12u);
}

}  // namespace
}  // namespace phalanx
