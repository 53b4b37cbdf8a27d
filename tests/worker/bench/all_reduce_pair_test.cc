#include "worker/bench/all_reduce_pair.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/reason.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

// The CPUs need not be two: what is asked here is not how fast it is.
std::unique_ptr<AllReducePair> StartPair() {
  auto pair = AllReducePair::Start({0, 0});
  EXPECT_OK(pair);
  return *std::move(pair);
}

// The only child of this thread.
pid_t Child() {
  std::ifstream children(
      absl::StrCat("/proc/self/task/", gettid(), "/children"));
  pid_t child = 0;
  children >> child;
  return child;
}

TEST(AllReducePair, AddsWithItsChild) {
  const auto pair = StartPair();
  for (const KernelCase& c : pair->Cases()) {
    c.begin(3);
    for (int64_t i = 0; i < 3; ++i) c.call(i);
  }
  EXPECT_OK(pair->status());
}

TEST(AllReducePair, TellsThatItsChildIsGone) {
  const auto pair = StartPair();
  const pid_t child = Child();
  ASSERT_GT(child, 0);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  for (const KernelCase& c : pair->Cases()) {
    c.begin(3);
    for (int64_t i = 0; i < 3; ++i) c.call(i);
  }
  EXPECT_EQ(ReasonOf(pair->status()).word, "GROUP_LOST");
}

}  // namespace
}  // namespace phalanx
