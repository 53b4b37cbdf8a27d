#include "worker/engine/vocabulary_exp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace phalanx {
namespace {

using testing::ElementsAre;

std::vector<float> ExpOf(const std::vector<float>& x, float largest,
                         float temperature = 1) {
  std::vector<float> y(x.size());
  VocabularyExp(x, largest, temperature, y);
  return y;
}

TEST(VocabularyExp, IsWithinTwoUnitsInTheLastPlaceOfTheExponential) {
  for (int i = 0; i < 100'000; ++i) {
    const float x = -87.0f * static_cast<float>(i) / 100'000;
    const double want = std::exp(static_cast<double>(x));
    ASSERT_NEAR(ExpOf({x}, 0)[0], want,
                2 * want * std::numeric_limits<float>::epsilon())
        << x;
  }
}

TEST(VocabularyExp, IsOneForTheLargest) {
  EXPECT_THAT(ExpOf({3.25f, -0.0f}, 3.25f), ElementsAre(1.0f, testing::_));
}

TEST(VocabularyExp, DividesTheDifferenceByTheTemperature) {
  EXPECT_THAT(ExpOf({1}, 3, 0.5f), ExpOf({-4}, 0));
}

TEST(VocabularyExp, IsZeroWhereNothingIsLeft) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();

  EXPECT_THAT(ExpOf({-87.1f, -3e38f, -kInfinity}, 3e38f),
              ElementsAre(0.0f, 0.0f, 0.0f));
}

// The compiler makes vectors of the loop and something else of its rest.
TEST(VocabularyExp, GivesTheSameBitsWhateverTheLength) {
  std::vector<float> x;
  for (int i = 0; i < 37; ++i) x.push_back(-0.37f * static_cast<float>(i));
  const std::vector<float> all = ExpOf(x, 0, 0.7f);

  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(ExpOf({x[i]}, 0, 0.7f)[0], all[i]);
}

}  // namespace
}  // namespace phalanx
