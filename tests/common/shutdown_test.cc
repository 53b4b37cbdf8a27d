#include "common/shutdown.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <vector>

#include "common/mutex.h"

namespace phalanx {
namespace {

// The counts that were told, in order.
class Told {
 public:
  void Add(int count) {
    MutexLock lock(mutex_);
    counts_.push_back(count);
    changed_.SignalAll();
  }
  std::vector<int> WaitFor(size_t size) {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return counts_.size() >= size;
    });
    return counts_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<int> counts_ ABSL_GUARDED_BY(mutex_);
};

TEST(ShutdownSignals, CountsTermAndInt) {
  Told told;
  ShutdownSignals signals([&](int count) { told.Add(count); });
  kill(getpid(), SIGTERM);
  told.WaitFor(1);
  kill(getpid(), SIGINT);
  EXPECT_EQ(told.WaitFor(2), std::vector<int>({1, 2}));
}

TEST(ShutdownSignals, QuitIsToldAndNotCounted) {
  Told told;
  ShutdownSignals signals([&](int count) { told.Add(count); },
                          [&] { told.Add(-1); });
  kill(getpid(), SIGQUIT);
  told.WaitFor(1);
  kill(getpid(), SIGQUIT);
  told.WaitFor(2);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(told.WaitFor(3), std::vector<int>({-1, -1, 1}));
}

TEST(ShutdownSignals, QuitKeepsItsMeaningWithoutACall) {
  UnblockShutdownSignals();  // What an earlier test left blocked.
  ShutdownSignals signals([](int) {});
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGQUIT), 0);
}

TEST(ShutdownSignals, EndsWithoutASignal) {
  Told told;
  {
    ShutdownSignals signals([&](int count) { told.Add(count); });
  }
  EXPECT_TRUE(told.WaitFor(0).empty());
}

TEST(ShutdownSignals, AStrangersUsr2DoesNotMakeItDeaf) {
  Told told;
  ShutdownSignals signals([&](int count) { told.Add(count); });
  kill(getpid(), SIGUSR2);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(told.WaitFor(1), std::vector<int>({1}));
}

TEST(ShutdownSignals, IgnoresBrokenPipes) {
  ShutdownSignals signals([](int) {});
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);  // And no signal ends the test.
  close(ends[1]);
}

TEST(ShutdownSignals, UnblockGivesAChildItsSignalsBack) {
  ShutdownSignals signals([](int) {}, [] {});
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
  EXPECT_EQ(sigismember(&mask, SIGQUIT), 1);
  UnblockShutdownSignals();
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0);
  EXPECT_EQ(sigismember(&mask, SIGQUIT), 0);
}

}  // namespace
}  // namespace phalanx
