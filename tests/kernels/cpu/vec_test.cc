#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/cpu/isa.h"
#include "kernels/exact_math.h"
#include "tests/kernels/cpu/vec_probe.h"

namespace phalanx {
namespace {

struct Function {
  const char* name;
  LaneFunction lanes;
  float (*scalar)(float);
};

float RoundBf16(float x) { return Bf16ToF32(F32ToBf16(x)); }

const Function kFunctions[] = {
    {"Exp", LaneFunction::kExp, [](float x) { return Exp(x); }},
    {"Log", LaneFunction::kLog, [](float x) { return Log(x); }},
    {"Log1p", LaneFunction::kLog1p, [](float x) { return Log1p(x); }},
    {"Rsqrt", LaneFunction::kRsqrt, [](float x) { return Rsqrt(x); }},
    {"Sigmoid", LaneFunction::kSigmoid, [](float x) { return Sigmoid(x); }},
    {"Silu", LaneFunction::kSilu, [](float x) { return Silu(x); }},
    {"Softplus", LaneFunction::kSoftplus, [](float x) { return Softplus(x); }},
    {"Sin", LaneFunction::kSin, [](float x) { return Sin(x); }},
    {"Cos", LaneFunction::kCos, [](float x) { return Cos(x); }},
    {"RoundToBf16", LaneFunction::kRoundToBf16, RoundBf16},
};

std::vector<const VecProbe*> Probes() {
  std::vector<const VecProbe*> probes = {&portable::Probe()};
  if (DetectCpu().avx2) probes.push_back(&avx2::Probe());
  if (DetectCpu().avx512) probes.push_back(&avx512::Probe());
  return probes;
}

uint32_t Bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

float FromBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// Equal to the bit, but any NaN is as good as another.
bool Same(float a, float b) {
  return Bits(a) == Bits(b) || (std::isnan(a) && std::isnan(b));
}

// Every 12,289th of all f32, of every sign and exponent; then
// the places where an algorithm changes its way.
std::vector<float> Inputs() {
  constexpr uint32_t kStep = 12289;
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kStep)
    x.push_back(FromBits(static_cast<uint32_t>(bits)));
  const float edges[] = {0.0f,          -0.0f,          INFINITY,  -INFINITY,
                         NAN,           0x1p-126f,      0x1p-149f, -0x1p-127f,
                         0x1.62e42ep6f, -0x1.5d589ep6f, 20.0f,     1.0f,
                         -1.0f,         0x1p22f,        0x1p25f,   1e6f};
  for (const float edge : edges)
    for (int step = -2; step <= 2; ++step)
      x.push_back(FromBits(Bits(edge) + static_cast<uint32_t>(step)));
  x.resize((x.size() + 15) / 16 * 16, 1.0f);
  return x;
}

// The first input on which the lanes of any instruction set part from the
// scalar function; empty if none does.
std::string FirstDifference(const Function& f, const std::vector<float>& x) {
  for (const VecProbe* probe : Probes()) {
    for (size_t i = 0; i < x.size(); i += 16) {
      float y[16];
      probe->apply(f.lanes, &x[i], y);
      for (int lane = 0; lane < 16; ++lane)
        if (!Same(y[lane], f.scalar(x[i + lane])))
          return std::string(f.name) + " of " + std::to_string(x[i + lane]);
    }
  }
  return "";
}

// Sets FTZ and DAZ while it lives.
class FlushedDenormals {
 public:
  FlushedDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
  ~FlushedDenormals() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

TEST(Vec, LanesOfEverySetHaveTheBitsOfTheScalarFunction) {
  const std::vector<float> x = Inputs();
  for (const Function& f : kFunctions) EXPECT_EQ(FirstDifference(f, x), "");
}

TEST(Vec, LanesHaveTheBitsOfTheScalarFunctionWhenDenormalsAreFlushed) {
  const std::vector<float> x = Inputs();
  const FlushedDenormals flushed;
  for (const Function& f : kFunctions) {
    if (f.lanes == LaneFunction::kRoundToBf16) continue;
    EXPECT_EQ(FirstDifference(f, x), "");
  }
}

TEST(Vec, ElementaryFunctionsDoNotDependOnFlushing) {
  const std::vector<float> x = Inputs();
  for (const Function& f : kFunctions) {
    if (f.lanes == LaneFunction::kRsqrt ||      // Of a denormal: its one caller
        f.lanes == LaneFunction::kRoundToBf16)  // adds an epsilon first.
      continue;
    std::vector<float> plain(x.size());
    for (size_t i = 0; i < x.size(); ++i) plain[i] = f.scalar(x[i]);
    const FlushedDenormals flushed;
    int64_t different = 0;
    for (size_t i = 0; i < x.size(); ++i)
      different +=
          Bits(plain[i]) != Bits(f.scalar(x[i])) && plain[i] == plain[i];
    EXPECT_EQ(different, 0) << f.name;
  }
}

std::vector<float> Numbers(int64_t count) {
  std::vector<float> x(count);
  uint32_t seed = 7;
  for (float& v : x) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(seed >> 8) * 0x1p-20f - 8.0f;
  }
  return x;
}

TEST(Vec, HorizontalSumIsTheTreeOfHalves) {
  const std::vector<float> x = Numbers(16);
  std::vector<float> tree = x;
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) tree[i] += tree[i + half];
  for (const VecProbe* probe : Probes())
    EXPECT_EQ(Bits(probe->sum(x.data())), Bits(tree[0]));
}

TEST(Vec, SixteenSumsAtOnceAreTheSixteenSums) {
  const std::vector<float> x = Numbers(256);
  for (const VecProbe* probe : Probes()) {
    float sums[16];
    probe->sums(x.data(), sums);
    for (int i = 0; i < 16; ++i)
      EXPECT_EQ(Bits(sums[i]), Bits(probe->sum(&x[16 * i]))) << i;
  }
}

TEST(Vec, HorizontalMaxIsTheLargestLaneWhereverItIs) {
  for (const VecProbe* probe : Probes()) {
    for (int place = 0; place < 16; ++place) {
      std::vector<float> x = Numbers(16);
      x[place] = 100.0f;
      EXPECT_EQ(probe->largest(x.data()), 100.0f);
    }
  }
}

TEST(Vec, PartsTouchNoMoreThanTheyShould) {
  const std::vector<float> x = Numbers(16);
  for (const VecProbe* probe : Probes()) {
    for (int n = 1; n <= 16; ++n) {
      const std::vector<float> exact_room(x.begin(), x.begin() + n);
      std::vector<float> y(16, -1.0f);
      probe->copy_part(exact_room.data(), y.data(), n);
      for (int i = 0; i < 16; ++i) EXPECT_EQ(y[i], i < n ? x[i] : -1.0f);
    }
  }
}

TEST(Vec, Bf16PartsKeepTheirBits) {
  for (const VecProbe* probe : Probes()) {
    for (int n = 1; n <= 16; ++n) {
      std::vector<uint16_t> x(n), y(16, 1);
      for (int i = 0; i < n; ++i) x[i] = static_cast<uint16_t>(0x3f80 + 77 * i);
      probe->copy_part_bf16(x.data(), y.data(), n);
      for (int i = 0; i < 16; ++i) EXPECT_EQ(y[i], i < n ? x[i] : 1);
    }
  }
}

TEST(Vec, NarrowingRoundsAsTheScalarConversionDoes) {
  const std::vector<float> x = Inputs();
  for (const VecProbe* probe : Probes()) {
    int64_t different = 0;
    for (size_t i = 0; i < x.size(); i += 16) {
      uint16_t y[16];
      probe->narrow(&x[i], y);
      for (int lane = 0; lane < 16; ++lane)
        different += y[lane] != F32ToBf16(x[i + lane]);
    }
    EXPECT_EQ(different, 0);
  }
}

}  // namespace
}  // namespace phalanx
