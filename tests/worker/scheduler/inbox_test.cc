#include "worker/scheduler/inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/scheduler/recording_sink.h"

namespace phalanx {
namespace {

using testing::_;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kEpoch = 5;
// For waits that end at once unless the code is wrong.
constexpr std::chrono::seconds kLong{60};

constexpr SchedulerLimits kLimits = {.max_running = 2,
                                     .max_waiting = 1,
                                     .max_model_len = 100,
                                     .prefill_chunk = 8,
                                     .step_tokens = 8,
                                     .kv_blocks = 4,
                                     .state_slots = 2,
                                     .vocab_size = 100,
                                     .block_tokens = 64};

Request Ask(const std::string& id, int32_t choice = 0) {
  Request request;
  request.id = id;
  request.epoch = kEpoch;
  request.prompt_ids = {1};
  request.max_tokens = 1;
  request.sampling.choice_index = choice;
  return request;
}

class InboxTest : public testing::Test {
 protected:
  InboxTest() { inbox_.Open(kEpoch, kLimits); }

  void End(const std::string& id, int32_t choice = 0) {
    const RequestKey key{id, choice};
    inbox_.Ended({&key, 1});
  }

  Inbox inbox_;
  RecordingSink sink_;
};

TEST_F(InboxTest, StartsClosed) {
  Inbox inbox;

  const absl::Status status = inbox.Submit(Ask("a"), &sink_);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_EQ(ReasonOf(status).word, "STARTING");
}

TEST_F(InboxTest, HandsOverRequestsInOrderOfArrival) {
  ASSERT_OK(inbox_.Submit(Ask("b"), &sink_));
  ASSERT_OK(inbox_.Submit(Ask("a"), &sink_));

  const Arrivals arrivals = inbox_.Drain();

  ASSERT_THAT(arrivals.submissions, SizeIs(2));
  EXPECT_EQ(arrivals.submissions[0].request.id, "b");
  EXPECT_EQ(arrivals.submissions[1].request.id, "a");
  EXPECT_EQ(arrivals.submissions[0].sink, &sink_);
  EXPECT_THAT(inbox_.Drain().submissions, IsEmpty());
}

TEST_F(InboxTest, RefusesABadRequestAndLeavesItsSinkAlone) {
  Request request = Ask("a");
  request.prompt_ids.clear();

  EXPECT_EQ(ReasonOf(inbox_.Submit(request, &sink_)).word, "PROMPT_EMPTY");

  EXPECT_EQ(sink_.ends, 0);
  EXPECT_EQ(inbox_.active(), 0);
}

TEST_F(InboxTest, RefusesAnotherEpoch) {
  Request request = Ask("a");
  request.epoch = kEpoch - 1;

  const absl::Status status = inbox_.Submit(request, &sink_);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               "epoch is 4; the group's is 5"));
  EXPECT_EQ(ReasonOf(status).word, "STALE_EPOCH");
}

TEST_F(InboxTest, RefusesARequestThatIsActive) {
  ASSERT_OK(inbox_.Submit(Ask("a"), &sink_));
  (void)inbox_.Drain();

  const absl::Status status = inbox_.Submit(Ask("a"), &sink_);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAlreadyExists, _));
  EXPECT_EQ(ReasonOf(status).word, "REQUEST_ACTIVE");
}

TEST_F(InboxTest, AcceptsOtherChoicesOfTheSameRequest) {
  ASSERT_OK(inbox_.Submit(Ask("a", 0), &sink_));

  EXPECT_OK(inbox_.Submit(Ask("a", 1), &sink_));
}

TEST_F(InboxTest, AcceptsAnIdAgainOnceItsRequestEnded) {
  ASSERT_OK(inbox_.Submit(Ask("a"), &sink_));
  (void)inbox_.Drain();
  End("a");

  EXPECT_OK(inbox_.Submit(Ask("a"), &sink_));
}

TEST_F(InboxTest, RefusesWhatExceedsRunningAndWaitingTogether) {
  for (const char* id : {"a", "b", "c"})
    ASSERT_OK(inbox_.Submit(Ask(id), &sink_));
  (void)inbox_.Drain();

  const absl::Status status = inbox_.Submit(Ask("d"), &sink_);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               "3 sequences are active; at most 3"));
  EXPECT_EQ(ReasonOf(status).word, "QUEUE_FULL");
  EXPECT_EQ(ReasonOf(status).metadata["limit"], "3");
}

TEST_F(InboxTest, RefusesWithWhatItWasClosedWith) {
  inbox_.Close(absl::UnavailableError("draining"));

  EXPECT_THAT(inbox_.Submit(Ask("a"), &sink_),
              StatusIs(absl::StatusCode::kUnavailable, "draining"));
}

TEST_F(InboxTest, KeepsWhatIsInsideWhenItCloses) {
  ASSERT_OK(inbox_.Submit(Ask("a"), &sink_));

  inbox_.Close(absl::UnavailableError("draining"));

  EXPECT_THAT(inbox_.Drain().submissions, SizeIs(1));
  EXPECT_EQ(inbox_.active(), 1);
}

TEST_F(InboxTest, OpensAgainUnderTheNextEpoch) {
  inbox_.Close(absl::UnavailableError("lost"));
  inbox_.Open(kEpoch + 1, kLimits);
  Request request = Ask("a");
  request.epoch = kEpoch + 1;

  EXPECT_OK(inbox_.Submit(request, &sink_));
}

TEST_F(InboxTest, PassesOnACancelOnceHoweverOftenItIsAsked) {
  ASSERT_OK(inbox_.Submit(Ask("a", 3), &sink_));

  EXPECT_TRUE(inbox_.Cancel("a"));
  EXPECT_TRUE(inbox_.Cancel("a"));

  EXPECT_THAT(inbox_.Drain().cancelled_ids, ElementsAre("a"));
  EXPECT_THAT(inbox_.Drain().cancelled_ids, IsEmpty());
}

TEST_F(InboxTest, FindsNothingToCancelThatIsNotActive) {
  ASSERT_OK(inbox_.Submit(Ask("b"), &sink_));

  EXPECT_FALSE(inbox_.Cancel("a"));
  EXPECT_FALSE(inbox_.Cancel("ba"));
  EXPECT_FALSE(inbox_.Cancel(""));
}

TEST_F(InboxTest, ForgetsACancelWhoseRequestEndedFirst) {
  ASSERT_OK(inbox_.Submit(Ask("a"), &sink_));
  (void)inbox_.Drain();
  ASSERT_TRUE(inbox_.Cancel("a"));
  End("a");

  ASSERT_OK(inbox_.Submit(Ask("a"), &sink_));

  EXPECT_THAT(inbox_.Drain().cancelled_ids, IsEmpty());
}

TEST_F(InboxTest, EndsWhatNobodyDrained) {
  RecordingSink drained;
  ASSERT_OK(inbox_.Submit(Ask("a"), &drained));
  (void)inbox_.Drain();
  ASSERT_OK(inbox_.Submit(Ask("b"), &sink_));

  inbox_.CloseAndEndAll(absl::UnavailableError("lost"));

  EXPECT_THAT(sink_.error, StatusIs(absl::StatusCode::kUnavailable, "lost"));
  EXPECT_EQ(drained.ends, 0);
  EXPECT_EQ(inbox_.active(), 1);
}

TEST_F(InboxTest, WaitsNoLongerThanTheTimeout) {
  EXPECT_FALSE(inbox_.WaitForWork(std::chrono::nanoseconds(1)));
}

TEST_F(InboxTest, IsAwakeAtOnceWhenSomethingCame) {
  ASSERT_OK(inbox_.Submit(Ask("a"), &sink_));

  EXPECT_TRUE(inbox_.WaitForWork(kLong));
}

TEST_F(InboxTest, RemembersAWakeOnce) {
  inbox_.Wake();

  EXPECT_TRUE(inbox_.WaitForWork(kLong));
  EXPECT_FALSE(inbox_.WaitForWork(std::chrono::nanoseconds(1)));
}

TEST_F(InboxTest, WakesTheEngineForEachKindOfNews) {
  std::atomic<int> woken{0};
  std::thread engine([&] {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(inbox_.WaitForWork(kLong));
      (void)inbox_.Drain();
      woken.store(i + 1);
      woken.notify_one();
    }
  });

  ASSERT_OK(inbox_.Submit(Ask("a"), &sink_));
  woken.wait(0);
  ASSERT_TRUE(inbox_.Cancel("a"));
  woken.wait(1);
  inbox_.Close(absl::UnavailableError("draining"));
  engine.join();

  EXPECT_EQ(woken.load(), 3);
}

// Four clients, one engine that ends each request at once.
TEST_F(InboxTest, LosesNoRequestBetweenManyThreads) {
  constexpr int kClients = 4;
  constexpr int kRequests = 300;
  std::atomic<int> clients_left{kClients};
  std::deque<RecordingSink> sinks(kClients * kRequests);
  std::atomic<int> accepted{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client)
    clients.emplace_back([&, client] {
      for (int i = 0; i < kRequests; ++i) {
        const std::string id = std::to_string(client) + "/" + std::to_string(i);
        const absl::Status status =
            inbox_.Submit(Ask(id), &sinks[client * kRequests + i]);
        accepted += status.ok();
        if (!status.ok()) {
          EXPECT_EQ(ReasonOf(status).word, "QUEUE_FULL");
        }
        inbox_.Cancel(id);
        (void)inbox_.active();
      }
      --clients_left;
      inbox_.Wake();
    });

  int ended = 0;
  while (clients_left > 0 || inbox_.active() > 0) {
    ASSERT_TRUE(inbox_.WaitForWork(kLong));
    for (Submission& submission : inbox_.Drain().submissions) {
      End(submission.request.id);
      submission.sink->Finish(FinishReason::kLength, 0);
      ++ended;
    }
  }
  for (std::thread& client : clients) client.join();

  EXPECT_EQ(ended, accepted.load());
  EXPECT_GT(ended, 0);
}

using InboxDeathTest = InboxTest;

TEST_F(InboxDeathTest, RefusesTheEndOfWhatIsNotActive) {
  EXPECT_DEATH(End("a"), "erase");
}

}  // namespace
}  // namespace phalanx
