#include "worker/group/heartbeat.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

TEST(SilenceWatch, IsThreeSecondsOfLooks) {
  EXPECT_EQ(kSilentTicks * kHeartbeatTick, std::chrono::seconds(3));
  EXPECT_EQ(kTicksPerBeat * kHeartbeatTick, std::chrono::seconds(1));
}

// A beat may come just after a look, so that one look is not a whole tick.
TEST(SilenceWatch, TellsTheFirstLookAfterAllThoseAreSilent) {
  SilenceWatch watch;
  for (int i = 0; i < kSilentTicks; ++i) EXPECT_FALSE(watch.Tick()) << i;
  EXPECT_TRUE(watch.Tick());
}

TEST(SilenceWatch, BeginsAnewWithEveryWord) {
  SilenceWatch watch;
  for (int beat = 0; beat < 3; ++beat) {
    for (int i = 0; i < kSilentTicks; ++i) EXPECT_FALSE(watch.Tick()) << i;
    watch.Heard();
  }
}

}  // namespace
}  // namespace phalanx
