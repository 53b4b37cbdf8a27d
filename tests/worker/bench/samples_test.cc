#include "worker/bench/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

using testing::ElementsAre;

// A machine whose read bandwidth goes through a list, look by look.
class Machine {
 public:
  explicit Machine(std::vector<double> reads) : reads_(std::move(reads)) {}
  Roofs Look() { return {.read = reads_[look_++ % reads_.size()]}; }

 private:
  const std::vector<double> reads_;
  size_t look_ = 0;
};

// Takes samples 1, 2, 3 ...; those that are kept.
struct Taken {
  explicit Taken(int wanted, Machine machine) {
    count = TakeSamples<int>(
        wanted, [&] { return machine.Look(); }, [&] { return ++last; },
        [&](int sample, const Roofs& roofs) {
          kept.push_back(sample);
          reads.push_back(roofs.read);
        });
  }

  int last = 0;
  SampleCount count;
  std::vector<int> kept;
  std::vector<double> reads;
};

TEST(Median, OfNoneIsNone) { EXPECT_EQ(Median({}), std::nullopt); }

TEST(Median, OfAnOddNumberIsTheMiddleOne) { EXPECT_EQ(Median({9, 1, 2}), 2); }

TEST(Median, OfAnEvenNumberIsBetweenTheMiddleOnes) {
  EXPECT_EQ(Median({9, 1, 2, 4}), 3);
}

TEST(MovedBy, IsThatOfTheRoofThatMovedMost) {
  EXPECT_DOUBLE_EQ(
      MovedBy({.read = 10, .f32_fma = 100}, {.read = 11, .f32_fma = 80}), 0.25);
}

TEST(MovedBy, LooksAtNoRoofThatWasNotMeasured) {
  EXPECT_EQ(MovedBy({.read = 10}, {.read = 10, .int8_dot = 5}), 0);
}

TEST(TakeSamples, KeepsAllOfAMachineThatStandsStill) {
  const Taken taken(3, Machine({10}));

  EXPECT_THAT(taken.kept, ElementsAre(1, 2, 3));
  EXPECT_EQ(taken.count.thrown, 0);
}

TEST(TakeSamples, ThrowsAwayWhatTheMachineMovedIn) {
  const Taken taken(2, Machine({10, 10.5, 12, 12, 12}));

  EXPECT_THAT(taken.kept, ElementsAre(1, 3));
  EXPECT_EQ(taken.count.kept, 2);
  EXPECT_EQ(taken.count.thrown, 1);
}

TEST(TakeSamples, GivesEachTheMachineBetweenItsTwoLooks) {
  const Taken taken(2, Machine({10, 10.5, 11}));

  EXPECT_THAT(taken.reads, ElementsAre(10.25, 10.75));
}

TEST(TakeSamples, GivesUpOnAMachineThatNeverStandsStill) {
  const Taken taken(4, Machine({10, 20}));

  EXPECT_THAT(taken.kept, ElementsAre());
  EXPECT_EQ(taken.count.thrown, kAttempts * 4);
}

}  // namespace
}  // namespace phalanx
