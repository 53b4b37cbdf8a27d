#include "worker/scheduler/fair_shares.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(FairShares, StartsANewKeyAtTheLeastThatWaits) {
  FairShares shares;
  FairShares::Share* a = shares.Enter("a");
  a->waiting = 1;
  shares.Charge(*a, 1000);

  EXPECT_EQ(shares.Enter("b")->service, 1000);
}

TEST(FairShares, LetsNobodySaveUpWhatItDoesNotUse) {
  FairShares shares;
  FairShares::Share* idle = shares.Enter("idle");
  FairShares::Share* busy = shares.Enter("busy");
  busy->waiting = 1;
  shares.Charge(*busy, 1000);
  ASSERT_EQ(idle->service, 0);

  EXPECT_EQ(shares.Enter("idle")->service, 1000);
}

TEST(FairShares, PassesTimeWithAllThatIsServed) {
  FairShares shares;
  FairShares::Share* a = shares.Enter("a");
  shares.Enter("b");
  shares.Charge(*a, 1000);

  EXPECT_EQ(shares.Enter("c")->service, 500);
}

TEST(FairShares, ForgetsAKeyWithItsLastRequest) {
  FairShares shares;
  shares.Enter("a");
  shares.Enter("a");
  shares.Leave("a");
  EXPECT_EQ(shares.keys(), 1);

  shares.Leave("a");

  EXPECT_EQ(shares.keys(), 0);
}

}  // namespace
}  // namespace phalanx
