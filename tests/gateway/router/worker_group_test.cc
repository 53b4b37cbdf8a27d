#include "gateway/router/worker_group.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "common/reason.h"
#include "tests/gateway/router/fake_worker.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// What on_change said, in order.
class News {
 public:
  void Tell(bool ready) {
    MutexLock lock(mutex_);
    said_.push_back(ready);
    changed_.SignalAll();
  }
  std::vector<bool> AfterThis(size_t count) {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return said_.size() >= count;
    });
    return said_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<bool> said_ ABSL_GUARDED_BY(mutex_);
};

class WorkerGroupTest : public testing::Test {
 protected:
  WorkerGroup& Watch(int ranks, int64_t tokenizer_size = 0) {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < ranks; ++rank)
      addresses.push_back(folder_.Address(std::to_string(rank)));
    group_ = std::make_unique<WorkerGroup>(
        "g", addresses, [this](bool ready) { news_.Tell(ready); },
        tokenizer_size);
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
  const auto view = group.ReadyView();
  ASSERT_OK(view);
  EXPECT_EQ((*view)->epoch, 7u);
  EXPECT_EQ((*view)->leader().model().vocab_size(), 300);
}

TEST_F(WorkerGroupTest, IsNotReadyWhileRanksAreOfTwoEpochs) {
  Start(0, ReadyStatus(0, 2, 7));
  Start(1, ReadyStatus(1, 2, 6));
  WorkerGroup& group = Watch(2);
  EXPECT_EQ(news_.AfterThis(1), std::vector<bool>({false}));
  EXPECT_EQ(group.view()->state, "forming");
  EXPECT_THAT(group.view()->detail, HasSubstr("one epoch"));
}

TEST_F(WorkerGroupTest, IsReadyWhenTheVocabularyHoldsTheTokenizer) {
  Start(0, ReadyStatus(0, 1, 7));
  Watch(1, /*tokenizer_size=*/300);
  EXPECT_EQ(news_.AfterThis(1), std::vector<bool>({true}));
}

TEST_F(WorkerGroupTest, IsNeverReadyWithATokenizerOfALargerModel) {
  Start(0, ReadyStatus(0, 1, 7));
  WorkerGroup& group = Watch(1, /*tokenizer_size=*/301);
  EXPECT_EQ(news_.AfterThis(1), std::vector<bool>({false}));
  EXPECT_THAT(group.ReadyView(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("vocab_size is 300; must be at least the "
                                 "tokenizer's 301 ids")));
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

TEST_F(WorkerGroupTest, SaysStartingUntilItWasReadyOnce) {
  v1::WorkerStatus loading = ReadyStatus(0, 1, 0);
  loading.set_state(v1::RANK_STATE_LOADING);
  Start(0, loading);
  WorkerGroup& group = Watch(1);
  news_.AfterThis(1);
  const absl::Status status = group.ReadyView().status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("loading")));
  EXPECT_EQ(ReasonOf(status).word, "STARTING");
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
  EXPECT_EQ(ReasonOf(group.ReadyView().status()).word, "NO_READY_GROUP");
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
