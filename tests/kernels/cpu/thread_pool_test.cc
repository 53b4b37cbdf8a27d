#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <xmmintrin.h>

#include <atomic>
#include <thread>
#include <vector>

namespace phalanx {
namespace {

constexpr unsigned kFlushBits = 0x8040;  // FTZ and DAZ.

struct Case {
  int threads;
  bool spin;
};

class ThreadPoolTest : public testing::TestWithParam<Case> {
 protected:
  ThreadPoolTest() : pool_(Config()) {}

  static ThreadPoolConfig Config() {
    ThreadPoolConfig config;
    config.threads = GetParam().threads;
    config.spin = GetParam().spin;
    return config;
  }

  ThreadPool pool_;
};

TEST_P(ThreadPoolTest, CallsEachIndexOnce) {
  std::vector<int> calls(1000, 0);

  pool_.ParallelFor(1000, [&](int64_t i) { ++calls[i]; });

  EXPECT_EQ(calls, std::vector<int>(1000, 1));
}

TEST_P(ThreadPoolTest, WhatALoopWroteIsThereWhenItReturns) {
  std::vector<int64_t> sums(8, 0);
  const int64_t loops = GetParam().spin ? 20000 : 500;

  for (int64_t n = 0; n < loops; ++n)
    pool_.ParallelFor(1 + n % 8, [&](int64_t i) { sums[i] += n; });

  int64_t want = 0;
  for (int64_t n = 0; n < loops; ++n) want += n * (1 + n % 8);
  int64_t got = 0;
  for (const int64_t sum : sums) got += sum;
  EXPECT_EQ(got, want);
}

TEST_P(ThreadPoolTest, ALoopOfNothingCallsNothing) {
  pool_.ParallelFor(0, [](int64_t) { FAIL(); });
}

TEST_P(ThreadPoolTest, EveryThreadFlushesDenormals) {
  pool_.AdoptCaller();
  std::atomic<int> without{0};

  pool_.ParallelFor(200, [&](int64_t) {
    if ((_mm_getcsr() & kFlushBits) != kFlushBits) ++without;
  });

  EXPECT_EQ(without, 0);
}

TEST_P(ThreadPoolTest, AnotherThreadMayCallAfterwards) {
  std::atomic<int> calls{0};
  pool_.ParallelFor(10, [&](int64_t) { ++calls; });

  std::thread([&] {
    pool_.AdoptCaller();
    pool_.ParallelFor(10, [&](int64_t) { ++calls; });
  }).join();

  EXPECT_EQ(calls, 20);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest,
                         testing::Values(Case{1, true}, Case{2, true},
                                         Case{2, false}, Case{5, false}),
                         [](const auto& info) {
                           return std::to_string(info.param.threads) +
                                  (info.param.spin ? "Spinning" : "Sleeping");
                         });

TEST(ThreadPool, EndsWhileItsThreadsSleepOrSpin) {
  for (int i = 0; i < 50; ++i) {
    ThreadPoolConfig config;
    config.threads = 3;
    config.spin = i % 2 == 0;
    ThreadPool pool(config);
  }
}

TEST(ThreadPool, PinsTheCallerOnceItIsAdopted) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  ThreadPoolConfig config;
  config.cpus = {cpu};
  ThreadPool pool(config);

  int pinned = 0;
  std::thread([&] {
    pool.AdoptCaller();
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    pinned = CPU_COUNT(&set);
  }).join();

  EXPECT_EQ(pinned, 1);
}

}  // namespace
}  // namespace phalanx
