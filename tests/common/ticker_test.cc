#include "common/ticker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/mutex.h"

namespace phalanx {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(Ticker, CallsAgainAndAgainOnAThreadOfItsOwn) {
  Mutex mutex;
  CondVar changed;
  int calls = 0;
  std::thread::id caller;
  Ticker ticker(milliseconds(1), [&] {
    MutexLock lock(mutex);
    ++calls;
    caller = std::this_thread::get_id();
    changed.SignalAll();
  });

  MutexLock lock(mutex);
  changed.Wait(mutex, [&] { return calls >= 3; });
  EXPECT_NE(caller, std::this_thread::get_id());
}

TEST(Ticker, EndsWithoutWaitingForItsInterval) {
  std::atomic<int> calls{0};
  {
    Ticker ticker(hours(1), [&] { ++calls; });
  }
  EXPECT_EQ(calls.load(), 0);
}

TEST(Ticker, CallsNoMoreOnceItHasGone) {
  std::atomic<int> calls{0};
  {
    Ticker ticker(milliseconds(1), [&] { ++calls; });
    while (calls.load() == 0) std::this_thread::yield();
  }
  const int before = calls.load();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_EQ(calls.load(), before);
}

}  // namespace
}  // namespace phalanx
