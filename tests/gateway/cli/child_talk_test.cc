#include "gateway/cli/child_talk.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "common/clock.h"

namespace phalanx {
namespace {

class ChildTalkTest : public testing::Test {
 protected:
  // What was passed on.
  std::string Take(const std::string& name, const std::string& line) {
    testing::internal::CaptureStderr();
    talk_.Take(name, line);
    return testing::internal::GetCapturedStderr();
  }

  ManualClock clock_;
  ProgressBar bar_{STDERR_FILENO, clock_};
  ChildTalk talk_{bar_};
};

TEST_F(ChildTalkTest, PassesEveryLineOnAsItIs) {
  const std::string line = R"({"event":"x","n":1})";
  EXPECT_EQ(Take("rank 0", line), line + "\n");
  EXPECT_EQ(Take("rank 0", "no JSON"), "no JSON\n");
}

TEST_F(ChildTalkTest, LearnsWhereTheGatewayListens) {
  Take(
      "gateway",
      R"({"event":"listening","address":"a:1","admin":"b:2","metrics":"c:3"})");
  EXPECT_EQ(talk_.address(), "a:1");
  EXPECT_EQ(talk_.admin_address(), "b:2");
  EXPECT_EQ(talk_.metrics_address(), "c:3");
}

TEST_F(ChildTalkTest, KeepsTheHighestEpochOfAnyRank) {
  EXPECT_EQ(talk_.epoch(), 0);
  Take("rank 1", R"({"event":"formed","epoch":4})");
  Take("rank 0", R"({"event":"formed","epoch":3})");
  Take("rank 0", R"({"event":"lost","epoch":9})");
  EXPECT_EQ(talk_.epoch(), 4);
}

TEST_F(ChildTalkTest, KeepsTheLastErrorOfAChild) {
  Take("rank 0", R"({"level":"ERROR","event":"e","cause":"first"})");
  Take("rank 0", R"({"level":"ERROR","event":"e","cause":"last"})");
  Take("rank 1", "--rank: must be");
  Take("rank 1", "more of it");
  EXPECT_EQ(talk_.ErrorOf("rank 0"), "last");
  EXPECT_EQ(talk_.ErrorOf("rank 1"), "--rank: must be");
  EXPECT_EQ(talk_.ErrorOf("gateway"), "");
}

}  // namespace
}  // namespace phalanx
