#include "worker/stopper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "common/mutex.h"

namespace phalanx {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

class StopperTest : public testing::Test {
 protected:
  // Stop sets an alarm that ends a process which hangs; this one goes on.
  ~StopperTest() override { alarm(0); }

  Stopper::Actions Actions() {
    return {.drain = [this] { Add("drain "); },
            .stop = [this] { Add("stop "); }};
  }
  void Add(const char* what) {
    MutexLock lock(mutex_);
    did_ += what;
    changed_.SignalAll();
  }
  std::string did() {
    MutexLock lock(mutex_);
    return did_;
  }

  Mutex mutex_;
  CondVar changed_;
  std::string did_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(StopperTest, TheFirstSignalDrainsTheSecondStops) {
  Stopper stopper(hours(1));
  stopper.Set(Actions());
  EXPECT_FALSE(stopper.leaving().load());

  stopper.OnSignal(1);
  EXPECT_EQ(did(), "drain ");
  EXPECT_TRUE(stopper.leaving().load());
  stopper.OnSignal(2);
  EXPECT_EQ(did(), "drain stop ");
}

TEST_F(StopperTest, ADrainThatTakesTooLongIsStopped) {
  Stopper stopper(milliseconds(1));
  stopper.Set(Actions());

  stopper.OnSignal(1);

  MutexLock lock(mutex_);
  changed_.Wait(mutex_, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return did_.starts_with("drain stop ");
  });
}

TEST_F(StopperTest, WithoutTimeThereIsNoDrain) {
  Stopper stopper(milliseconds(0));
  stopper.Set(Actions());

  stopper.OnSignal(1);

  EXPECT_EQ(did(), "stop ");
}

TEST_F(StopperTest, ASignalBeforeThereIsAnythingToStopStopsItThen) {
  Stopper stopper(hours(1));
  stopper.OnSignal(1);
  EXPECT_TRUE(stopper.leaving().load());

  stopper.Set(Actions());

  EXPECT_EQ(did(), "stop ");
}

TEST_F(StopperTest, WhatIsForgottenIsNotCalled) {
  Stopper stopper(hours(1));
  stopper.Set(Actions());
  stopper.Forget();

  stopper.OnSignal(1);

  EXPECT_EQ(did(), "");
}

}  // namespace
}  // namespace phalanx
