#include "gateway/cli/launcher.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kForever[] = "exec sleep 1000";
constexpr int kDeadlineMs = 5000;

bool Alive(pid_t pid) { return kill(pid, 0) == 0; }

// Returns once /proc shows the process in this state.
void AwaitState(pid_t pid, char state) {
  const std::string mark = absl::StrCat(") ", std::string(1, state));
  std::string text;
  while (text.find(mark) == std::string::npos) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
    std::getline(file, text);
  }
}

// Real time for waits, and as much more as a test says.
class ShiftedClock final : public Clock {
 public:
  double now_seconds() const override {
    return real_.now_seconds() + shift_seconds_;
  }
  void Advance(double seconds) { shift_seconds_ += seconds; }

 private:
  MonotonicClock real_;
  double shift_seconds_ = 0;
};

ChildSpec Shell(const std::string& name, const std::string& script) {
  return {name, [script](int64_t) -> std::vector<std::string> {
            return {"/bin/sh", "-c", script};
          }};
}

class LauncherTest : public testing::Test {
 protected:
  Launcher Make(std::vector<ChildSpec> specs) {
    return Launcher(std::move(specs), clock_,
                    [this](const std::string& name, absl::string_view line) {
                      lines_[name].push_back(std::string(line));
                    },
                    {.stopped_seconds = kStoppedSeconds, .waker = &waker_});
  }

  // Kills one child and lets the launcher do what it does then.
  void KillAndRestart(Launcher& launcher, size_t child) {
    ASSERT_TRUE(launcher.running(child));
    launcher.Signal(child, SIGKILL);
    const auto death = launcher.Poll(kDeadlineMs);
    ASSERT_TRUE(death.has_value());
    launcher.RestartAfter(*death);
  }
  // Lets the time of any restart come, at which all run again.
  void LetRestart(Launcher& launcher, size_t children) {
    clock_.Advance(1);
    ASSERT_FALSE(launcher.Poll(/*timeout_ms=*/0).has_value());
    for (size_t i = 0; i < children; ++i) ASSERT_TRUE(launcher.running(i));
  }

  static constexpr double kStoppedSeconds = 10;

  Waker waker_;
  ShiftedClock clock_;
  std::map<std::string, std::vector<std::string>> lines_;
};

TEST_F(LauncherTest, TellsWhoDiedAndHow) {
  Launcher launcher = Make({Shell("a", kForever), Shell("b", "exit 7")});
  ASSERT_OK(launcher.StartAll());

  const auto death = launcher.Poll(kDeadlineMs);

  ASSERT_TRUE(death.has_value());
  EXPECT_EQ(death->name, "b");
  EXPECT_EQ(death->how, "exit code 7");
}

TEST_F(LauncherTest, TellsTheSignalThatKilled) {
  Launcher launcher = Make({Shell("a", "kill -9 $$")});
  ASSERT_OK(launcher.StartAll());

  const auto death = launcher.Poll(kDeadlineMs);

  ASSERT_TRUE(death.has_value());
  EXPECT_THAT(death->how, HasSubstr("signal 9"));
}

TEST_F(LauncherTest, TellsNothingWhileAllLive) {
  Launcher launcher = Make({Shell("a", kForever)});
  ASSERT_OK(launcher.StartAll());

  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/30).has_value());
}

TEST_F(LauncherTest, DeliversEveryLineThatADyingChildWrote) {
  Launcher launcher = Make({Shell("a", "printf 'one\\ntwo\\nthree' >&2")});
  ASSERT_OK(launcher.StartAll());

  ASSERT_TRUE(launcher.Poll(kDeadlineMs).has_value());

  EXPECT_THAT(lines_["a"], ElementsAre("one", "two", "three"));
}

TEST_F(LauncherTest, SaysThatAProgramCannotBeRun) {
  Launcher launcher = Make({{"a", [](int64_t) -> std::vector<std::string> {
                               return {"/nowhere/program"};
                             }}});
  ASSERT_OK(launcher.StartAll());

  const auto death = launcher.Poll(kDeadlineMs);

  ASSERT_TRUE(death.has_value());
  EXPECT_EQ(death->how, "exit code 127");
  ASSERT_FALSE(lines_["a"].empty());
  EXPECT_THAT(lines_["a"][0], HasSubstr("/nowhere/program cannot be run"));
}

TEST_F(LauncherTest, RestartsOnlyTheOneThatDied) {
  Launcher launcher = Make({Shell("a", kForever), Shell("b", kForever)});
  ASSERT_OK(launcher.StartAll());
  const pid_t survivor = launcher.pid(0);
  const pid_t victim = launcher.pid(1);

  KillAndRestart(launcher, 1);

  EXPECT_EQ(launcher.pid(0), survivor);
  EXPECT_NE(launcher.pid(1), victim);
  EXPECT_TRUE(Alive(launcher.pid(1)));
}

TEST_F(LauncherTest, RestartsAllAfterThreeDeathsInAMinute) {
  Launcher launcher = Make({Shell("a", kForever), Shell("b", kForever)});
  ASSERT_OK(launcher.StartAll());
  const pid_t survivor = launcher.pid(0);

  for (int i = 0; i < 3; ++i) {
    KillAndRestart(launcher, 1);
    LetRestart(launcher, 2);
  }

  EXPECT_NE(launcher.pid(0), survivor);
  EXPECT_FALSE(Alive(survivor));
}

TEST_F(LauncherTest, ForgetsDeathsOfMoreThanAMinuteAgo) {
  Launcher launcher = Make({Shell("a", kForever), Shell("b", kForever)});
  ASSERT_OK(launcher.StartAll());
  const pid_t survivor = launcher.pid(0);

  for (int i = 0; i < 4; ++i) {
    KillAndRestart(launcher, 1);
    clock_.Advance(31);
    LetRestart(launcher, 2);
  }

  EXPECT_EQ(launcher.pid(0), survivor);
}

TEST_F(LauncherTest, TellsAChildHowManyRestartsThereWere) {
  Launcher launcher =
      Make({{"a", [](int64_t restarts) -> std::vector<std::string> {
               return {"/bin/sh", "-c",
                       absl::StrCat("echo ", restarts, " >&2; exit 1")};
             }}});
  ASSERT_OK(launcher.StartAll());

  for (int i = 0; i < 2; ++i) {
    const auto death = launcher.Poll(kDeadlineMs);
    ASSERT_TRUE(death.has_value());
    launcher.RestartAfter(*death);
  }

  EXPECT_THAT(lines_["a"], ElementsAre("0", "1"));
}

// The first restart is at once; then 0.1 s, 0.2 s.
TEST_F(LauncherTest, WaitsLongerWithAChildThatKeepsDying) {
  Launcher launcher = Make({Shell("a", kForever)});
  ASSERT_OK(launcher.StartAll());
  KillAndRestart(launcher, 0);
  EXPECT_TRUE(launcher.running(0));
  KillAndRestart(launcher, 0);
  EXPECT_FALSE(launcher.running(0));

  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/0).has_value());
  EXPECT_FALSE(launcher.running(0));
  clock_.Advance(0.11);
  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/0).has_value());
  EXPECT_TRUE(launcher.running(0));
}

TEST_F(LauncherTest, NeverWaitsLongerThanHalfAMinute) {
  Launcher launcher = Make({Shell("a", kForever)});
  ASSERT_OK(launcher.StartAll());
  for (int i = 0; i < 12; ++i) {
    KillAndRestart(launcher, 0);
    clock_.Advance(30.1);
    EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/0).has_value());
    ASSERT_TRUE(launcher.running(0));
  }

  KillAndRestart(launcher, 0);
  clock_.Advance(29);
  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/0).has_value());
  EXPECT_FALSE(launcher.running(0));
}

TEST_F(LauncherTest, RestartsAtOnceWhatHasLivedLong) {
  Launcher launcher = Make({Shell("a", kForever)});
  ASSERT_OK(launcher.StartAll());
  for (int i = 0; i < 5; ++i) {
    KillAndRestart(launcher, 0);
    ASSERT_TRUE(launcher.running(0));
    clock_.Advance(61);
  }
}

TEST_F(LauncherTest, DoesNotRestartWhatHasRetired) {
  Launcher launcher = Make({Shell("a", kForever)});
  ASSERT_OK(launcher.StartAll());
  launcher.Retire(0);

  KillAndRestart(launcher, 0);
  clock_.Advance(60);

  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/0).has_value());
  EXPECT_FALSE(launcher.running(0));
}

TEST_F(LauncherTest, KillsAChildThatStaysStopped) {
  Launcher launcher = Make({Shell("a", kForever)});
  ASSERT_OK(launcher.StartAll());
  launcher.Signal(0, SIGSTOP);
  AwaitState(launcher.pid(0), 'T');
  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/0).has_value());

  clock_.Advance(kStoppedSeconds);
  const auto death = launcher.Poll(kDeadlineMs);

  ASSERT_TRUE(death.has_value());
  EXPECT_THAT(death->how, HasSubstr("signal 9"));
}

TEST_F(LauncherTest, LeavesAChildAloneThatGoesOnInTime) {
  Launcher launcher = Make({Shell("a", kForever)});
  ASSERT_OK(launcher.StartAll());
  launcher.Signal(0, SIGSTOP);
  AwaitState(launcher.pid(0), 'T');
  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/0).has_value());
  launcher.Signal(0, SIGCONT);
  AwaitState(launcher.pid(0), 'S');
  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/0).has_value());

  clock_.Advance(10 * kStoppedSeconds);

  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/30).has_value());
}

TEST_F(LauncherTest, IsWokenAtOnce) {
  Launcher launcher = Make({Shell("a", kForever)});
  ASSERT_OK(launcher.StartAll());
  const double began = clock_.now_seconds();
  waker_.Wake();

  EXPECT_FALSE(launcher.Poll(kDeadlineMs).has_value());

  EXPECT_LT(clock_.now_seconds() - began, kDeadlineMs / 1000.0);
}

// The second signal of a daemon ends it at once.
TEST_F(LauncherTest, StopsAllWithTwoSignals) {
  Launcher launcher = Make(
      {Shell("a",
             "trap t=1 TERM; trap i=1 INT; echo up >&2; "
             "while [ x$t$i != x11 ]; do sleep 0.02; done; echo both >&2")});
  ASSERT_OK(launcher.StartAll());
  while (lines_["a"].empty())
    ASSERT_FALSE(launcher.Poll(/*timeout_ms=*/10).has_value());

  launcher.StopAll(/*grace_seconds=*/5);

  EXPECT_THAT(lines_["a"], ElementsAre("up", "both"));
}

TEST_F(LauncherTest, StopsAllPolitely) {
  Launcher launcher =
      Make({Shell("a",
                  "trap 'echo bye >&2; exit 0' TERM; trap '' INT; "
                  "echo up >&2; while :; do sleep 0.02; done")});
  ASSERT_OK(launcher.StartAll());
  while (lines_["a"].empty())
    ASSERT_FALSE(launcher.Poll(/*timeout_ms=*/10).has_value());

  launcher.StopAll(/*grace_seconds=*/5);

  EXPECT_THAT(lines_["a"], ElementsAre("up", "bye"));
}

TEST_F(LauncherTest, KillsWhatDoesNotStop) {
  Launcher launcher = Make({Shell(
      "a", "trap '' TERM INT; echo up >&2; while :; do sleep 0.02; done")});
  ASSERT_OK(launcher.StartAll());
  while (lines_["a"].empty())
    ASSERT_FALSE(launcher.Poll(/*timeout_ms=*/10).has_value());
  const pid_t pid = launcher.pid(0);

  launcher.StopAll(/*grace_seconds=*/0.05);

  EXPECT_FALSE(Alive(pid));
}

TEST_F(LauncherTest, IsNotHeldByAChildThatNeverStopsWriting) {
  Launcher launcher = Make({Shell("a", "while :; do echo x >&2; done")});
  ASSERT_OK(launcher.StartAll());

  EXPECT_FALSE(launcher.Poll(/*timeout_ms=*/50).has_value());
}

// The parent is a process of its own here; each child's end of the pipe closes
// when the child ends, and the last one gives the end of file.
TEST_F(LauncherTest, LeavesNobodyBehindWhenItsProcessIsKilled) {
  int life[2];
  ASSERT_EQ(pipe(life), 0);
  int started[2];
  ASSERT_EQ(pipe(started), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    Launcher launcher = Make({Shell("a", kForever), Shell("b", kForever)});
    const bool ok = launcher.StartAll().ok();
    if (write(started[1], ok ? "y" : "n", 1) != 1) _exit(1);
    close(life[1]);
    while (true) launcher.Poll(kDeadlineMs);
  }
  close(life[1]);
  char answer = 0;
  ASSERT_EQ(read(started[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');

  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);

  alarm(10);  // A child that stays holds the pipe, and this test, for ever.
  EXPECT_EQ(read(life[0], &answer, 1), 0);
  alarm(0);
  for (const int fd : {life[0], started[0], started[1]}) close(fd);
}

}  // namespace
}  // namespace phalanx
