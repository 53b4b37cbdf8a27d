#include "common/available_memory.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(AvailableMemoryBytes, IsMoreThanNothing) {
  EXPECT_GT(AvailableMemoryBytes(), 0);
}

TEST(DefaultMemoryBudgetBytes, OfAllRanksLeavesSomethingOfWhatIsFree) {
  const int64_t budget = DefaultMemoryBudgetBytes(1);

  // Others take and give memory meanwhile.
  EXPECT_NEAR(static_cast<double>(budget),
              0.9 * static_cast<double>(AvailableMemoryBytes()),
              0.05 * static_cast<double>(AvailableMemoryBytes()));
}

TEST(DefaultMemoryBudgetBytes, IsDividedByTheRanks) {
  const auto one = static_cast<double>(DefaultMemoryBudgetBytes(1));

  EXPECT_NEAR(static_cast<double>(DefaultMemoryBudgetBytes(4)), one / 4,
              one / 40);
}

TEST(DefaultMemoryBudgetBytes, IsAlwaysABudget) {
  EXPECT_GE(DefaultMemoryBudgetBytes(1 << 30), 1);
}

}  // namespace
}  // namespace phalanx
