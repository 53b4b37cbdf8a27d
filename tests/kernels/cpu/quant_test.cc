// int8 and int4 on CPU: every instruction set gives the bits of the portable
// kernels, whatever the family of bf16.

#include <vector>

#include "tests/kernels/cpu/matmul_rig.h"

namespace phalanx {
namespace {

struct QuantKind {
  const char* name;
  CpuKind cpu;
  bool vnni;
};

const QuantKind kKinds[] = {
    {"Avx2", kAvx2Fma, false},
    {"Avx512", kAvx512Fma, false},
    {"Avx512Vnni", kAvx512Fma, true},
    {"Avx512VnniBf16Dot", kAvx512Bf16Dot, true},
};

std::unique_ptr<Backend> Make(const CpuKind& kind, bool vnni, int threads) {
  CpuBackendConfig config;
  config.threads = threads;
  config.spin = false;
  config.isa = kind.isa;
  config.family = kind.family;
  config.vnni = vnni;
  return *CreateCpuBackend(config);
}

// More than a block of rows; groups of 128, 128 and 7 or of one slice; no
// multiple of a tile.
constexpr int64_t kTokens = 27;
constexpr int64_t kRows = 77;
constexpr int64_t kCols = 8 * 263 + 8;

struct Inputs {
  Bf16s x = RandomBf16(kTokens * kCols, 1);
  Bf16s weight = RandomBf16(kRows * kCols, 2);
};

// What a backend makes of them, in one format.
struct Outputs {
  std::vector<std::byte> packed;
  Floats y;

  Outputs(Backend& backend, const Inputs& inputs, WeightFormat format,
          int slices, int64_t tokens) {
    PackedWeight w = *backend.AllocateWeight(
        {.rows = kRows, .cols = kCols, .format = format, .slices = slices},
        MemoryComponent::kActivations, "weight");
    backend.PackWeight(inputs.weight.data(), 0, w);
    packed.resize(static_cast<size_t>(w.matrix_bytes));
    backend.ReadPacked(w, 0, packed.data());
    y.resize(tokens * kRows);
    backend.ops().MatMulSliced(
        MakeTensor(const_cast<uint16_t*>(inputs.x.data()), DType::kBf16, tokens,
                   kCols),
        w, slices, MakeTensor(y.data(), DType::kF32, tokens, kRows));
  }
};

class QuantTest : public testing::TestWithParam<QuantKind> {
 protected:
  void SetUp() override {
    const CpuFeatures cpu = DetectCpu();
    const QuantKind& kind = GetParam();
    if (!CanRun(kind.cpu) || (kind.vnni && !SupportsVnni(cpu, kind.cpu.isa)))
      GTEST_SKIP() << "not on this processor";
  }
};

TEST_P(QuantTest, PacksAndMultipliesToTheBitsOfThePortableKernels) {
  const Inputs inputs;
  auto portable = Make(kPortableFma, false, 1);
  auto backend = Make(GetParam().cpu, GetParam().vnni, 2);

  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const int slices : {1, 8}) {
      const Outputs want(*portable, inputs, format, slices, kTokens);
      const Outputs got(*backend, inputs, format, slices, kTokens);
      EXPECT_EQ(got.packed, want.packed)
          << WeightFormatName(format) << " in " << slices;
      EXPECT_EQ(got.y, want.y) << WeightFormatName(format) << " in " << slices;
    }
  }
}

TEST_P(QuantTest, ARowsResultDoesNotDependOnTheNumberOfRows) {
  const Inputs inputs;
  auto backend = Make(GetParam().cpu, GetParam().vnni, 1);

  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    const Outputs all(*backend, inputs, format, 8, kTokens);
    for (int64_t tokens = 1; tokens < kTokens; ++tokens) {
      const Outputs some(*backend, inputs, format, 8, tokens);
      ASSERT_TRUE(std::equal(some.y.begin(), some.y.end(), all.y.begin()))
          << WeightFormatName(format) << ", " << tokens;
    }
  }
}

TEST_P(QuantTest, ExtremeCodesDoNotSaturate) {
  // 128 times 255 - 128 times 127 and 0 - 128 + 1 times -127.
  auto backend = Make(GetParam().cpu, GetParam().vnni, 1);
  Bf16s x(128), weight(2 * 128);
  for (int64_t i = 0; i < 128; ++i) {
    x[i] = F32ToBf16(i % 3 == 0 ? -127.0f : 127.0f);
    weight[i] = x[i];
    weight[128 + i] = F32ToBf16(-Bf16ToF32(x[i]));
  }
  PackedWeight w = *backend->AllocateWeight(
      {.rows = 2, .cols = 128, .format = WeightFormat::kInt8},
      MemoryComponent::kActivations, "weight");
  backend->PackWeight(weight.data(), 0, w);
  Floats y(2);

  backend->ops().MatMul(MakeTensor(x.data(), DType::kBf16, 1, 128), w,
                        MakeTensor(y.data(), DType::kF32, 1, 2));

  EXPECT_EQ(y[0], 128 * 127 * 127);
  EXPECT_EQ(y[1], -128 * 127 * 127);
}

INSTANTIATE_TEST_SUITE_P(Kinds, QuantTest, testing::ValuesIn(kKinds),
                         [](const testing::TestParamInfo<QuantKind>& info) {
                           return std::string(info.param.name);
                         });

TEST(QuantBackendTest, RefusesVnniOnASetWithoutIt) {
  CpuBackendConfig config;
  config.isa = Isa::kPortable;
  config.vnni = true;

  EXPECT_THAT(CreateCpuBackend(config),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("VNNI")));
}

}  // namespace
}  // namespace phalanx
