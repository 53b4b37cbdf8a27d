#include "worker/checkpoint/load_jobs.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

class OnThreads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, OnThreads, testing::Values(1, 2, 5));

TEST_P(OnThreads, EveryJobIsDoneOnce) {
  std::vector<std::atomic<int>> times(100);
  LoadJobs jobs;
  for (auto& count : times)
    jobs.Add(1, [&count](LoadJobs::Scratch*) { ++count; });

  ASSERT_OK(jobs.Run({.threads = GetParam()}));

  for (const auto& count : times) EXPECT_EQ(count.load(), 1);
}

TEST_P(OnThreads, ProgressGoesFromNothingToAllAndNeverBack) {
  std::vector<LoadProgress> told;
  LoadJobs jobs;
  int64_t total = 7;
  jobs.AddForCaller(7, [] {});
  for (int64_t bytes = 1; bytes <= 50; ++bytes) {
    jobs.Add(bytes, [](LoadJobs::Scratch*) {});
    total += bytes;
  }

  ASSERT_OK(jobs.Run(
      {.threads = GetParam(),
       .on_progress = [&](const LoadProgress& now) { told.push_back(now); }}));

  ASSERT_EQ(told.size(), 52u);
  EXPECT_EQ(told.front().done_bytes, 0);
  EXPECT_EQ(told.back().done_bytes, total);
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].total_bytes, total);
    if (i > 0) {
      EXPECT_GT(told[i].done_bytes, told[i - 1].done_bytes);
    }
  }
}

TEST_P(OnThreads, CallersJobsStayWithTheCaller) {
  std::vector<std::thread::id> threads;
  LoadJobs jobs;
  for (int i = 0; i < 20; ++i) {
    jobs.AddForCaller(1,
                      [&] { threads.push_back(std::this_thread::get_id()); });
    jobs.Add(1, [](LoadJobs::Scratch*) {});
  }

  ASSERT_OK(jobs.Run({.threads = GetParam()}));

  EXPECT_EQ(threads,
            std::vector<std::thread::id>(20, std::this_thread::get_id()));
}

TEST_P(OnThreads, NoJobBeginsOnceItIsStopped) {
  std::atomic<bool> stop{true};
  std::atomic<int> done{0};
  LoadJobs jobs;
  jobs.AddForCaller(1, [&] { ++done; });
  for (int i = 0; i < 50; ++i) jobs.Add(1, [&](LoadJobs::Scratch*) { ++done; });

  const absl::Status status = jobs.Run({.threads = GetParam(), .stop = &stop});

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled, testing::_));
  EXPECT_EQ(done.load(), 0);
}

TEST(LoadJobs, StopsBetweenTwoJobs) {
  std::atomic<bool> stop{false};
  int done = 0;
  LoadJobs jobs;
  for (int i = 0; i < 5; ++i)
    jobs.Add(1, [&](LoadJobs::Scratch*) { stop.store(++done == 2); });

  const absl::Status status = jobs.Run({.threads = 1, .stop = &stop});

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled, testing::_));
  EXPECT_EQ(done, 2);
}

// Once all is done there is nothing left to cancel.
TEST(LoadJobs, AStopThatComesAfterTheLastJobIsTooLate) {
  std::atomic<bool> stop{false};
  LoadJobs jobs;
  jobs.Add(1, [&](LoadJobs::Scratch*) { stop.store(true); });

  EXPECT_OK(jobs.Run({.threads = 1, .stop = &stop}));
}

// Three jobs that wait for each other end only if three threads do them.
TEST(LoadJobs, RunsAsManyJobsAtOnceAsItHasThreads) {
  std::barrier all(3);
  LoadJobs jobs;
  for (int i = 0; i < 3; ++i)
    jobs.Add(1, [&](LoadJobs::Scratch*) { all.arrive_and_wait(); });

  EXPECT_OK(jobs.Run({.threads = 3}));
}

TEST(LoadJobs, AThreadKeepsItsScratchFromJobToJob) {
  std::vector<size_t> sizes;
  LoadJobs jobs;
  for (int i = 0; i < 3; ++i)
    jobs.Add(1, [&](LoadJobs::Scratch* scratch) {
      sizes.push_back(scratch->size());
      scratch->resize(scratch->size() + 10);
    });

  ASSERT_OK(jobs.Run({.threads = 1}));

  EXPECT_EQ(sizes, (std::vector<size_t>{0, 10, 20}));
}

TEST(LoadJobs, WithNothingToDoThereIsNothingToTellButThat) {
  std::vector<LoadProgress> told;

  ASSERT_OK(LoadJobs().Run({.threads = 4, .on_progress = [&](const auto& now) {
                              told.push_back(now);
                            }}));

  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].total_bytes, 0);
}

}  // namespace
}  // namespace phalanx
