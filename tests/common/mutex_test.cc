#include "common/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace phalanx {
namespace {

TEST(Mutex, LetsOneThreadInAtATime) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        MutexLock lock(mutex);
        ++count;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(CondVar, WaitReturnsOnceTheConditionHolds) {
  Mutex mutex;
  CondVar changed;
  bool ready = false;
  std::thread other([&] {
    MutexLock lock(mutex);
    ready = true;
    changed.SignalAll();
  });
  {
    MutexLock lock(mutex);
    changed.Wait(mutex, [&] { return ready; });
    EXPECT_TRUE(ready);
  }
  other.join();
}

TEST(CondVar, WaitForSaysThatTheTimeIsOver) {
  Mutex mutex;
  CondVar changed;
  MutexLock lock(mutex);
  EXPECT_FALSE(changed.WaitFor(mutex, std::chrono::milliseconds(1),
                               [] { return false; }));
  EXPECT_TRUE(
      changed.WaitFor(mutex, std::chrono::hours(1), [] { return true; }));
}

}  // namespace
}  // namespace phalanx
