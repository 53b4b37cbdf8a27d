#include "kernels/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace phalanx {
namespace {

constexpr int kSamples = 200'000;

// The distance between two f32 neighbours at this value.
double Ulp(double value) {
  int exponent;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, exponent - 24);
}

// The largest error of f against the truth in doubles, in ulp, over arguments
// spread evenly in [low, high] or evenly in their logarithm.
template <typename F, typename Truth>
double WorstUlp(F f, Truth truth, double low, double high,
                bool logarithmic = false) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<double> spread(
      logarithmic ? std::log(low) : low, logarithmic ? std::log(high) : high);
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double drawn = spread(engine);
    const float x = static_cast<float>(logarithmic ? std::exp(drawn) : drawn);
    const double expected = truth(static_cast<double>(x));
    if (std::abs(expected) < 0x1p-125) continue;
    worst = std::max(worst, std::abs(f(x) - expected) / Ulp(expected));
  }
  return worst;
}

double TrueExp(double x) { return std::exp(x); }
double TrueLog(double x) { return std::log(x); }
double TrueLog1p(double x) { return std::log1p(x); }
double TrueSin(double x) { return std::sin(x); }
double TrueCos(double x) { return std::cos(x); }
double TrueSigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double TrueSoftplus(double x) { return std::log1p(std::exp(x)); }

const auto kExp = [](float x) { return Exp(x); };
const auto kLog = [](float x) { return Log(x); };
const auto kLog1p = [](float x) { return Log1p(x); };
const auto kSin = [](float x) { return Sin(x); };
const auto kCos = [](float x) { return Cos(x); };

TEST(ExactMath, ExpIsWithinTwoUlpOverTheWholeRange) {
  EXPECT_LT(WorstUlp(kExp, TrueExp, -87.33, 88.72), 1.1);
  EXPECT_LT(WorstUlp(kExp, TrueExp, -1, 1), 1.1);
}

TEST(ExactMath, ExpEndsInZeroAndInfinity) {
  EXPECT_EQ(Exp(-0x1.5d58a0p6f), 0.0f);
  EXPECT_EQ(Exp(-INFINITY), 0.0f);
  EXPECT_GE(Exp(-0x1.5d589ep6f), 0x1p-126f);
  EXPECT_TRUE(std::isfinite(Exp(0x1.62e42ep6f)));
  EXPECT_EQ(Exp(0x1.62e430p6f), INFINITY);
  EXPECT_EQ(Exp(INFINITY), INFINITY);
}

TEST(ExactMath, ExpOfZeroIsOne) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_EQ(Exp(0x1p-149f), 1.0f);
}

TEST(ExactMath, ExpNeverDecreases) {
  float last = 0.0f;
  for (float x = -90.0f; x < 90.0f; x += 0x1p-9f) {
    EXPECT_GE(Exp(x), last) << x;
    last = Exp(x);
  }
}

TEST(ExactMath, LogIsWithinTwoUlp) {
  EXPECT_LT(WorstUlp(kLog, TrueLog, 1.2e-38, 3e38, true), 1.1);
  EXPECT_LT(WorstUlp(kLog, TrueLog, 0.5, 2), 1.1);
}

TEST(ExactMath, LogHasTheEdgesOfALogarithm) {
  EXPECT_EQ(Log(1.0f), 0.0f);
  EXPECT_EQ(Log(0.0f), -INFINITY);
  EXPECT_EQ(Log(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(Log(-1.0f)));
}

TEST(ExactMath, Log1pIsWithinTwoUlp) {
  EXPECT_LT(WorstUlp(kLog1p, TrueLog1p, 1e-38, 4e8, true), 1.5);
  EXPECT_LT(WorstUlp(kLog1p, TrueLog1p, -0.999, 1), 1.5);
  EXPECT_EQ(Log1p(-1.0f), -INFINITY);
}

TEST(ExactMath, SineAndCosineAreWithinTwoUlpUpToAMillion) {
  EXPECT_LT(WorstUlp(kSin, TrueSin, -7, 7), 2);
  EXPECT_LT(WorstUlp(kCos, TrueCos, -7, 7), 2);
  EXPECT_LT(WorstUlp(kSin, TrueSin, 7, 1.1e6), 2);
  EXPECT_LT(WorstUlp(kCos, TrueCos, 7, 1.1e6), 2);
  EXPECT_LT(WorstUlp(kSin, TrueSin, 1e-30, 1e6, true), 2);
}

// Where x is closest to a multiple of pi/2 nearly all digits cancel.
TEST(ExactMath, SineIsWithinTwoUlpNearMultiplesOfPi) {
  double worst = 0;
  for (int64_t n = 1; n <= 300'000; ++n) {
    const float x = static_cast<float>(n * M_PI);
    const double expected = std::sin(static_cast<double>(x));
    worst = std::max(worst, std::abs(Sin(x) - expected) / Ulp(expected));
  }
  EXPECT_LT(worst, 2);
}

TEST(ExactMath, SigmoidSiluAndSoftplusAreWithinThreeUlp) {
  const auto sigmoid = [](float x) { return Sigmoid(x); };
  const auto silu = [](float x) { return Silu(x); };
  const auto softplus = [](float x) { return Softplus(x); };
  const auto true_silu = [](double x) { return x * TrueSigmoid(x); };
  EXPECT_LT(WorstUlp(sigmoid, TrueSigmoid, -87, 50), 3);
  EXPECT_LT(WorstUlp(silu, true_silu, -80, 50), 3);
  EXPECT_LT(WorstUlp(softplus, TrueSoftplus, -80, 50), 3);
}

TEST(ExactMath, NanComesOutAsNan) {
  for (const float y : {Exp(NAN), Log(NAN), Log1p(NAN), Sin(NAN), Cos(NAN),
                        Sigmoid(NAN), Silu(NAN), Softplus(NAN), Rsqrt(NAN)})
    EXPECT_TRUE(std::isnan(y));
}

TEST(ExactMath, LogOfDoublesIsWithinTwoUlp) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<double> spread(-600, 600);
  double worst = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double drawn = spread(engine);
    for (const double x : {std::exp(drawn), 1 + drawn / 2000}) {
      const long double expected = std::log(static_cast<long double>(x));
      int exponent;
      std::frexp(static_cast<double>(expected), &exponent);
      const long double error = std::abs(LogExact(x) - expected);
      worst = std::max(worst,
                       static_cast<double>(std::ldexp(error, 53 - exponent)));
    }
  }
  EXPECT_LT(worst, 2);
}

TEST(ExactMath, LogOfDoublesHasTheEdgesOfALogarithm) {
  EXPECT_EQ(LogExact(1.0), 0.0);
  EXPECT_EQ(LogExact(0.0), -INFINITY);
  EXPECT_EQ(LogExact(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(LogExact(-1.0)));
}

}  // namespace
}  // namespace phalanx
