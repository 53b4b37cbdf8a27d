#include "gateway/router/worker_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "tests/gateway/router/fake_worker.h"
#include "tests/gateway/router/news.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

class WorkerGroupTest : public testing::Test {
 protected:
  WorkerGroup& Watch(int ranks, WorkerGroup::Judge judge = nullptr) {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < ranks; ++rank)
      addresses.push_back(folder_.Address(std::to_string(rank)));
    group_ = std::make_unique<WorkerGroup>(
        "g", addresses, [this](bool ready) { news_.Tell(ready); },
        std::move(judge));
    return *group_;
  }
  FakeWorker& Start(int rank, const v1::WorkerStatus& status) {
    workers_.push_back(std::make_unique<FakeWorker>(
        folder_.Address(std::to_string(rank)), status));
    return *workers_.back();
  }

  SocketFolder folder_;
  News news_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  std::unique_ptr<WorkerGroup> group_;
};

TEST_F(WorkerGroupTest, IsReadyWhenEveryRankIsReadyInOneEpoch) {
  Start(0, ReadyStatus(0, 2, 7));
  Start(1, ReadyStatus(1, 2, 7));
  WorkerGroup& group = Watch(2);
  EXPECT_EQ(news_.AfterThis(1), std::vector<bool>({true}));
  const auto view = group.view();
  EXPECT_TRUE(view->ready);
  EXPECT_EQ(view->epoch, 7u);
  EXPECT_EQ(view->leader().model().vocab_size(), 300);
}

TEST_F(WorkerGroupTest, IsNotReadyWhileRanksAreOfTwoEpochs) {
  Start(0, ReadyStatus(0, 2, 7));
  Start(1, ReadyStatus(1, 2, 6));
  WorkerGroup& group = Watch(2);
  EXPECT_EQ(news_.AfterThis(1), std::vector<bool>({false}));
  EXPECT_EQ(group.view()->state, "forming");
  EXPECT_THAT(group.view()->detail, HasSubstr("one epoch"));
}

TEST_F(WorkerGroupTest, IsNotReadyAgainstTheJudge) {
  Start(0, ReadyStatus(0, 1, 7));
  WorkerGroup& group =
      Watch(1, [](const v1::WorkerStatus&, bool) { return "another model"; });
  EXPECT_EQ(news_.AfterThis(1), std::vector<bool>({false}));
  EXPECT_EQ(group.view()->state, "forming");
  EXPECT_EQ(group.view()->detail, "another model");
}

TEST_F(WorkerGroupTest, NamesTheWorkerThatIsAnotherRankThanListed) {
  Start(0, ReadyStatus(1, 2, 7));
  Start(1, ReadyStatus(0, 2, 7));
  WorkerGroup& group = Watch(2);
  EXPECT_EQ(news_.AfterThis(1), std::vector<bool>({false}));
  EXPECT_THAT(group.view()->detail,
              HasSubstr("is rank 1 of 2; must be rank 0 of 2"));
}

TEST_F(WorkerGroupTest, NamesTheRankThatCannotBeReached) {
  Start(0, ReadyStatus(0, 2, 7));
  WorkerGroup& group = Watch(2);
  EXPECT_EQ(news_.AfterThis(1), std::vector<bool>({false}));
  EXPECT_FALSE(group.view()->ranks[1].reachable());
  EXPECT_THAT(group.view()->detail, HasSubstr("rank 1 at unix:"));
}

TEST_F(WorkerGroupTest, IsAsFarAsItsSlowestRank) {
  v1::WorkerStatus loading = ReadyStatus(0, 2, 0);
  loading.set_state(v1::RANK_STATE_LOADING);
  loading.set_load_progress(0.25);
  Start(0, loading);
  v1::WorkerStatus loaded = ReadyStatus(1, 2, 0);
  loaded.set_load_progress(1);
  Start(1, loaded);
  WorkerGroup& group = Watch(2);
  news_.AfterThis(1);
  EXPECT_EQ(group.view()->state, "loading");
  EXPECT_EQ(group.view()->progress(), 0.25);
}

TEST_F(WorkerGroupTest, IsInDoubtUntilItIsLookedAtAgain) {
  Start(0, ReadyStatus(0, 1, 7));
  std::atomic<int> looks{0};
  Event held;
  WorkerGroup& group = Watch(1, [&](const v1::WorkerStatus&, bool) {
    if (looks.fetch_add(1) == 1) held.Wait();  // The second look waits.
    return "";
  });
  news_.AfterThis(1);
  EXPECT_FALSE(group.in_doubt());
  group.Refresh();
  EXPECT_TRUE(group.in_doubt());
  held.Set();
  while (group.in_doubt()) std::this_thread::yield();
}

TEST_F(WorkerGroupTest, TellsOfEveryChange) {
  FakeWorker& worker = Start(0, ReadyStatus(0, 1, 1));
  WorkerGroup& group = Watch(1);
  news_.AfterThis(1);
  v1::WorkerStatus forming = ReadyStatus(0, 1, 1);
  forming.set_state(v1::RANK_STATE_FORMING);
  worker.SetStatus(forming);
  group.Refresh();
  EXPECT_EQ(news_.AfterThis(2), std::vector<bool>({true, false}));
  EXPECT_FALSE(group.view()->ready);
  worker.SetStatus(ReadyStatus(0, 1, 2));
  group.Refresh();
  EXPECT_EQ(news_.AfterThis(3), std::vector<bool>({true, false, true}));
}

TEST_F(WorkerGroupTest, TellsOfAGroupThatReformedBetweenTwoLooks) {
  FakeWorker& worker = Start(0, ReadyStatus(0, 1, 7));
  WorkerGroup& group = Watch(1);
  news_.AfterThis(1);

  worker.SetStatus(ReadyStatus(0, 1, 8));
  group.Refresh();

  EXPECT_EQ(news_.AfterThis(3), std::vector<bool>({true, false, true}));
}

TEST_F(WorkerGroupTest, FindsAWorkerThatStartsLater) {
  Watch(1);
  EXPECT_EQ(news_.AfterThis(1), std::vector<bool>({false}));
  Start(0, ReadyStatus(0, 1, 1));
  EXPECT_EQ(news_.AfterThis(2), std::vector<bool>({false, true}));
}

}  // namespace
}  // namespace phalanx
