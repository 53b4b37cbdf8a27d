#include "gateway/router/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/reason.h"
#include "tests/gateway/router/fake_worker.h"
#include "tests/gateway/router/news.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

std::vector<int32_t> LongPrompt(int32_t first) {
  std::vector<int32_t> ids(300);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// Waits for looks at one group.
class Looks final : public WorkerGroup::Observer {
 public:
  void OnSeen(const WorkerGroup::View&) override {
    MutexLock lock(mutex_);
    changed_.SignalAll();
  }
  // Until a look that began after this call has been seen, and what came before
  // it has been told.
  void AwaitNew(WorkerGroup& group) {
    group.Refresh();
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return !group.in_doubt();
    });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
};

class Waiter final : public Router::Waiter {
 public:
  void OnGroupsChanged() override { called.Set(); }
  Event called;
};

// Groups of one rank each, named 0, 1, ...
class RouterTest : public testing::Test {
 protected:
  void Start(std::vector<v1::WorkerStatus> statuses,
             int64_t tokenizer_size = 0) {
    std::vector<GroupSpec> specs;
    std::vector<WorkerGroup::Observer*> observers;
    for (size_t g = 0; g < statuses.size(); ++g) {
      const std::string name = std::to_string(g);
      workers_.push_back(
          std::make_unique<FakeWorker>(folder_.Address(name), statuses[g]));
      specs.push_back({.name = name, .addresses = {folder_.Address(name)}});
      looks_.push_back(std::make_unique<Looks>());
      observers.push_back(looks_.back().get());
    }
    router_ = std::make_unique<Router>(
        std::move(specs), [this](bool ready) { news_.Tell(ready); },
        tokenizer_size, std::move(observers));
    for (size_t g = 0; g < looks_.size(); ++g) Look(g);
  }
  // The router knows then what the group says now.
  void Look(size_t g) { looks_[g]->AwaitNew(router_->group(g)); }
  // Tells the group's status, and waits until the router knows it.
  void Say(size_t g, const v1::WorkerStatus& status) {
    workers_[g]->SetStatus(status);
    Look(g);
  }
  // Where a stream goes; -1: nowhere.
  int64_t Go(const RouteHint& hint = {}) {
    auto route = router_->Pick(hint);
    if (!route.ok()) return -1;
    routes_.push_back(*std::move(route));
    return routes_.back().index();
  }

  static RouteHint Prompt(const std::vector<int32_t>& ids) {
    return {.prompt_ids = ids, .cache_salt = "", .numerics_id = ""};
  }
  static RouteHint Bits(const std::string& numerics_id) {
    return {.prompt_ids = {}, .cache_salt = "", .numerics_id = numerics_id};
  }
  static v1::WorkerStatus Ready(int64_t max_running = 4) {
    v1::WorkerStatus status = ReadyStatus(0, 1, 1);
    status.set_max_running(max_running);
    return status;
  }
  static v1::WorkerStatus InState(v1::RankState state) {
    v1::WorkerStatus status = Ready();
    status.set_state(state);
    return status;
  }

  SocketFolder folder_;
  News news_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  std::vector<std::unique_ptr<Looks>> looks_;
  std::unique_ptr<Router> router_;
  std::vector<Router::Route> routes_;  // Last: they are the router's load.
};

TEST_F(RouterTest, StreamsSpreadOverGroups) {
  Start({Ready(), Ready()});
  for (int i = 0; i < 6; ++i) Go();

  EXPECT_EQ(router_->load(0), 3);
  EXPECT_EQ(router_->load(1), 3);
}

TEST_F(RouterTest, AStreamThatEndsIsNoLoad) {
  Start({Ready()});
  Go();
  routes_.clear();

  EXPECT_EQ(router_->load(0), 0);
}

TEST_F(RouterTest, StreamsOfOtherGatewaysAreLoad) {
  Start({Ready(), Ready()});
  for (size_t g = 0; g < 2; ++g) {
    v1::WorkerStatus busy = Ready();
    busy.set_requests_running(g == 0 ? 3 : 1);
    busy.set_requests_waiting(g == 0 ? 2 : 0);
    Say(g, busy);
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Go(), 1) << i;
}

TEST_F(RouterTest, ItsOwnStreamsCountOnce) {
  Start({Ready(), Ready()});
  for (int i = 0; i < 4; ++i) Go();
  v1::WorkerStatus busy = Ready();
  busy.set_requests_running(2);
  Say(0, busy);  // The other says that it runs none yet.
  for (int i = 0; i < 4; ++i) Go();

  EXPECT_EQ(router_->load(0), 4);
  EXPECT_EQ(router_->load(1), 4);
}

TEST_F(RouterTest, APrefixStaysWithItsGroup) {
  Start({Ready(), Ready()});
  for (int32_t first = 0; first < 20; ++first) {
    const std::vector<int32_t> ids = LongPrompt(first);
    const int64_t home = Go(Prompt(ids));
    routes_.clear();
    EXPECT_EQ(Go(Prompt(ids)), home);
    EXPECT_EQ(Go(Prompt(ids)), home);
    routes_.clear();
  }
}

TEST_F(RouterTest, APrefixLeavesAGroupThatIsTooFull) {
  Start({Ready(), Ready()});
  const std::vector<int32_t> ids = LongPrompt(0);
  const int64_t home = Go(Prompt(ids));
  for (int i = 0; i < 2; ++i) Go(Prompt(ids));

  EXPECT_EQ(router_->load(home), 3);
  EXPECT_EQ(Go(Prompt(ids)), 1 - home);
}

TEST_F(RouterTest, EqualBitsComeBeforeLoad) {
  v1::WorkerStatus other = Ready();
  other.set_numerics_id("other");
  Start({Ready(), other});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Go(Bits("other")), 1);
}

TEST_F(RouterTest, UnlikeBitsAreBetterThanNone) {
  Start({Ready()});
  EXPECT_EQ(Go(Bits("gone")), 0);
}

TEST_F(RouterTest, AGroupThatDrainsIsLeftAlone) {
  Start({Ready(), Ready()});
  Say(0, InState(v1::RANK_STATE_DRAINING));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Go(), 1);
  EXPECT_EQ(news_.AfterThis(1).back(), true);  // The gateway is ready still.
}

TEST_F(RouterTest, AGroupInDoubtComesLast) {
  Start({Ready(), Ready()});
  const int64_t first = Go();
  routes_.clear();
  workers_[first]->HoldStatus();
  router_->group(first).Refresh();
  EXPECT_EQ(Go(), 1 - first);
  EXPECT_EQ(Go(), 1 - first);
  workers_[first]->ReleaseStatus();
}

TEST_F(RouterTest, TheOnlyGroupMayTakeAnotherModel) {
  Start({Ready()});
  v1::WorkerStatus other = Ready();
  other.set_model_digest("another");
  Say(0, other);
  EXPECT_EQ(Go(), 0);
}

TEST_F(RouterTest, GroupsOfUnlikeModelsAreNeverReadyTogether) {
  Start({Ready(), InState(v1::RANK_STATE_LOADING)});
  v1::WorkerStatus other = Ready();
  other.set_model_digest("another");
  Say(1, other);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Go(), 0);
  EXPECT_EQ(router_->group(1).view()->state, "forming");
  EXPECT_EQ(router_->group(1).view()->detail,
            "the model's digest is another; must be digest, that of the other "
            "groups");
}

TEST_F(RouterTest, AGroupThatIsGoneStillSaysWhichModelIsServed) {
  Start({Ready(), InState(v1::RANK_STATE_LOADING)});
  workers_[0]->Kill();
  Look(0);
  v1::WorkerStatus other = Ready();
  other.set_model_digest("another");
  Say(1, other);
  EXPECT_EQ(Go(), -1);
}

TEST_F(RouterTest, AllGroupsTogetherMayTakeAnotherModel) {
  Start({Ready(), Ready()});
  v1::WorkerStatus other = Ready();
  other.set_model_digest("another");
  Say(0, other);
  EXPECT_FALSE(router_->group(0).view()->ready);
  Say(1, other);
  Look(0);
  EXPECT_TRUE(router_->group(0).view()->ready);
  EXPECT_TRUE(router_->group(1).view()->ready);
}

TEST_F(RouterTest, GroupsOfUnlikeLengthsAreNotReadyTogether) {
  Start({Ready(), InState(v1::RANK_STATE_LOADING)});
  v1::WorkerStatus other = Ready();
  other.set_max_model_len(200);
  Say(1, other);
  EXPECT_THAT(router_->group(1).view()->detail,
              HasSubstr("max_model_len is 200; must be 100"));
}

TEST_F(RouterTest, IsReadyWhenTheVocabularyHoldsTheTokenizer) {
  Start({Ready()}, /*tokenizer_size=*/300);
  EXPECT_EQ(Go(), 0);
}

TEST_F(RouterTest, IsNeverReadyWithATokenizerOfALargerModel) {
  Start({Ready()}, /*tokenizer_size=*/301);
  EXPECT_THAT(router_->ReadyView(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("vocab_size is 300; must be at least the "
                                 "tokenizer's 301 ids")));
}

TEST_F(RouterTest, SaysStartingWithTheProgressOfTheFurthestGroup) {
  v1::WorkerStatus near = InState(v1::RANK_STATE_LOADING);
  near.set_load_progress(0.25);
  v1::WorkerStatus far = InState(v1::RANK_STATE_WARMING);
  far.set_load_progress(1);
  Start({near, far});
  const absl::Status status = router_->Pick({}).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               "group 0 is loading; group 1 is warming"));
  EXPECT_EQ(ReasonOf(status).word, "STARTING");
  EXPECT_EQ(ReasonOf(status).metadata.at("phase"), "warming");
  EXPECT_EQ(ReasonOf(status).metadata.at("progress"), "1.00");
}

TEST_F(RouterTest, SaysNoReadyGroupOnceOneWasReady) {
  Start({Ready(), InState(v1::RANK_STATE_LOADING)});
  Say(0, InState(v1::RANK_STATE_FORMING));
  const absl::Status status = router_->Pick({}).status();
  EXPECT_EQ(ReasonOf(status).word, "NO_READY_GROUP");
  EXPECT_EQ(ReasonOf(status).metadata.count("progress"), 0u);
}

TEST_F(RouterTest, TellsWhetherAnyGroupIsReady) {
  Start({Ready(), InState(v1::RANK_STATE_LOADING)});
  Say(1, Ready());
  Say(0, InState(v1::RANK_STATE_FORMING));
  Say(1, InState(v1::RANK_STATE_FORMING));
  Look(1);  // What is seen is told before the next look.
  const std::vector<bool> said = news_.AfterThis(2);
  EXPECT_EQ(std::vector<bool>(said.end() - 2, said.end()),
            std::vector<bool>({true, false}));
}

TEST_F(RouterTest, AWaiterIsCalledAtTheNextChange) {
  Start({InState(v1::RANK_STATE_LOADING)});
  const auto waiter = std::make_shared<Waiter>();
  router_->Await(waiter);
  workers_[0]->SetStatus(Ready());
  waiter->called.Wait();
  EXPECT_EQ(Go(), 0);
}

TEST_F(RouterTest, AWaiterThatIsGoneIsForgotten) {
  Start({InState(v1::RANK_STATE_LOADING)});
  for (int i = 0; i < 1000; ++i) router_->Await(std::make_shared<Waiter>());
  const auto waiter = std::make_shared<Waiter>();
  router_->Await(waiter);
  workers_[0]->SetStatus(Ready());
  waiter->called.Wait();
}

// Whoever registers and then finds no group is told of the next one, however
// the two threads meet.
TEST_F(RouterTest, NoWakeUpIsLost) {
  Start({InState(v1::RANK_STATE_FORMING)});
  for (int i = 0; i < 50; ++i) {
    std::thread change([&] {
      workers_[0]->SetStatus(Ready());
      router_->group(0).Refresh();
    });
    while (true) {
      const auto waiter = std::make_shared<Waiter>();
      router_->Await(waiter);
      if (Go() == 0) break;
      waiter->called.Wait();  // Perhaps of a change for the worse.
    }
    change.join();
    Say(0, InState(v1::RANK_STATE_FORMING));
    routes_.clear();
  }
}

}  // namespace
}  // namespace phalanx
