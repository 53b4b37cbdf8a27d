#include "worker/scheduler/anchors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

using testing::ElementsAre;

TEST(ThinOut, KeepsWhatIsFarApart) {
  EXPECT_THAT(ThinOut({100, 228, 356}, 400), ElementsAre(100, 228, 356));
}

TEST(ThinOut, DropsWhatIsCloserToTheNextOneThatStays) {
  EXPECT_THAT(ThinOut({100, 300, 310, 320, 500, 627}, 700),
              ElementsAre(100, 320, 627));
}

TEST(ThinOut, KeepsTheFirstAndTheLast) {
  EXPECT_THAT(ThinOut({10, 20, 30}, 100), ElementsAre(10, 30));
}

TEST(ThinOut, KeepsTheNeighbourOfTheOneForOtherChoices) {
  EXPECT_THAT(ThinOut({10, 300, 350, 399}, 400), ElementsAre(10, 350, 399));
}

TEST(ThinOut, LeavesNothingOfNothing) {
  EXPECT_THAT(ThinOut({}, 10), ElementsAre());
}

Sequence WithAnchors(std::vector<int32_t> anchors) {
  Sequence sequence;
  sequence.prompt_tokens = 5000;
  sequence.request.anchors = std::move(anchors);
  return sequence;
}

TEST(NextAnchor, IsTheNextOneBehindThePosition) {
  const Sequence sequence = WithAnchors({100, 300});

  EXPECT_EQ(NextAnchor(sequence, 0, 2048), 100);
  EXPECT_EQ(NextAnchor(sequence, 99, 2048), 100);
  EXPECT_EQ(NextAnchor(sequence, 100, 2048), 300);
}

TEST(NextAnchor, IsAMultipleWhereNoAnchorComesFirst) {
  const Sequence sequence = WithAnchors({3000});

  EXPECT_EQ(NextAnchor(sequence, 0, 2048), 2048);
  EXPECT_EQ(NextAnchor(sequence, 2048, 2048), 3000);
  EXPECT_EQ(NextAnchor(sequence, 3000, 2048), 4096);
}

}  // namespace
}  // namespace phalanx
