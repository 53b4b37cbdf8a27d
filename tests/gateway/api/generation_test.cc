// How streams end, and what holds while they run, through the real service.

#include "gateway/api/generation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/grpc_status.h"
#include "common/reason.h"
#include "tests/gateway/api/api_fixtures.h"
#include "tests/gateway/api/gateway_rig.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Counts, and lets others wait for a count.
class Counter {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
    changed_.SignalAll();
  }
  void WaitFor(int64_t count) {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return count_ >= count;
    });
  }
  int64_t count() {
    MutexLock lock(mutex_);
    return count_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Endless answers reach no max_tokens.
v1::WorkerStatus Spacious() {
  v1::WorkerStatus status = ReadyStatus(0, 1, 7);
  status.set_max_model_len(1'000'000'000);
  return status;
}

class GenerationTest : public testing::Test {
 protected:
  // Every stream gets tokens until nobody takes them. A stream that is
  // cancelled at once may never reach the worker: await worker_began_ first.
  void ScriptEndless() {
    rig_.worker().SetScript([this](grpc::ServerContext&,
                                   const v1::WorkerGenerateRequest&,
                                   FakeWorker::Writer& writer) {
      worker_began_.Add();
      const grpc::Status status = WriteUntilNobodyReads(writer);
      worker_ended_.Add();
      return status;
    });
  }
  void ScriptStatus(const grpc::Status& status) {
    rig_.worker().SetScript([status](grpc::ServerContext&,
                                     const v1::WorkerGenerateRequest&,
                                     FakeWorker::Writer&) { return status; });
  }
  // A stream that has begun.
  std::unique_ptr<ClientStream> Begin(const v1::GenerateRequest& request) {
    auto stream = rig_.Generate(request);
    v1::GenerateEvent event;
    EXPECT_TRUE(stream->Read(event));
    EXPECT_TRUE(event.has_accepted());
    return stream;
  }
  static void ExpectCancelledByClient(ClientStream& stream) {
    stream.ReadAll();
    const absl::Status status = stream.End();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(ReasonOf(status).word, "CLIENT");
  }

  Counter worker_began_;
  Counter worker_ended_;
  // A lost group is not waited for long.
  GatewayRig rig_{Spacious(), /*max_requests=*/64,
                  RigLimits(/*wait_seconds=*/0.1)};
};

TEST_F(GenerationTest, AStopStringEndsTheAnswerAndCancelsTheWorker) {
  ScriptEndless();
  v1::GenerateRequest request = RequestOf("me");
  request.mutable_stopping()->add_stop_strings("xxx");
  const auto stream = rig_.Generate(request);
  const auto events = stream->ReadAll();
  EXPECT_OK(stream->End());
  EXPECT_EQ(TextOf(events), "");
  const v1::Finished& finished = events[events.size() - 2].finished();
  EXPECT_EQ(finished.reason(), v1::FINISH_REASON_STOP_STRING);
  EXPECT_EQ(finished.matched_stop_string(), "xxx");
  EXPECT_EQ(events.back().summary().completion_tokens(), 3);
  worker_ended_.WaitFor(1);
}

TEST_F(GenerationTest, CancelByIdEndsThatStreamAlone) {
  ScriptEndless();
  const auto stream = Begin(RequestOf("me"));
  const auto other = Begin(RequestOf("other"));
  worker_began_.WaitFor(2);
  v1::CancelRequest request;
  request.add_request_ids("me");
  request.add_request_ids("nobody");
  const v1::CancelResponse response = rig_.Cancel(request);
  EXPECT_EQ(response.cancelled(), 1);
  EXPECT_THAT(response.not_found(), ElementsAre("nobody"));
  ExpectCancelledByClient(*stream);
  worker_ended_.WaitFor(1);
  v1::GenerateEvent event;
  EXPECT_TRUE(other->Read(event));
}

TEST_F(GenerationTest, CancelByTagEndsEveryStreamOfTheTag) {
  ScriptEndless();
  v1::GenerateRequest tagged = RequestOf("a");
  tagged.set_tag("red");
  const auto first = Begin(tagged);
  tagged.set_request_id("b");
  const auto second = Begin(tagged);
  v1::CancelRequest request;
  request.set_tag("red");
  EXPECT_EQ(rig_.Cancel(request).cancelled(), 2);
  ExpectCancelledByClient(*first);
  ExpectCancelledByClient(*second);
}

TEST_F(GenerationTest, CancelAllEndsEveryStreamAndIsIdempotent) {
  ScriptEndless();
  const auto stream = Begin(RequestOf("a"));
  v1::CancelRequest request;
  request.set_all(true);
  EXPECT_EQ(rig_.Cancel(request).cancelled(), 1);
  EXPECT_EQ(rig_.Cancel(request).cancelled(), 0);
  ExpectCancelledByClient(*stream);
}

TEST_F(GenerationTest, AClientThatGoesAwayCancelsTheWorker) {
  ScriptEndless();
  const auto stream = Begin(RequestOf("me"));
  worker_began_.WaitFor(1);
  stream->GoAway();
  worker_ended_.WaitFor(1);
  EXPECT_TRUE(absl::IsCancelled(stream->End()));
}

TEST_F(GenerationTest, ASlowClientThatGoesAwayCancelsTheWorker) {
  ScriptEndless();
  const auto stream = rig_.Generate("me");
  worker_began_.WaitFor(1);
  stream->GoAway();
  worker_ended_.WaitFor(1);
}

TEST_F(GenerationTest, ALostWorkerIsALostGroup) {
  ScriptEndless();
  const auto stream = Begin(RequestOf("me"));
  worker_began_.WaitFor(1);
  rig_.worker().Kill();
  stream->ReadAll();
  const absl::Status status = stream->End();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  Reason reason = ReasonOf(status);
  EXPECT_EQ(reason.word, "GROUP_LOST");
  EXPECT_EQ(reason.metadata["epoch"], "7");
  EXPECT_EQ(reason.metadata["rank"], "0");
  EXPECT_NE(reason.metadata["cause"], "");
}

TEST_F(GenerationTest, AnEpochThatIsOverIsALostGroup) {
  ScriptStatus(ToGrpc(ReasonedError(absl::StatusCode::kFailedPrecondition,
                                    "STALE_EPOCH", "epoch is 7; it is 8")));
  const auto stream = Begin(RequestOf("me"));
  stream->ReadAll();
  EXPECT_EQ(ReasonOf(stream->End()).word, "GROUP_LOST");
}

TEST_F(GenerationTest, ADrainHandsItsStreamsOverWithAToken) {
  ScriptEndless();
  const auto stream = Begin(RequestOf("me"));
  worker_began_.WaitFor(1);
  EXPECT_EQ(rig_.active().DrainAll(), 1);
  stream->ReadAll();
  const absl::Status status = stream->End();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status).word, "DRAINING");
  EXPECT_NE(ReasonOf(status).metadata["resume_token"], "");
  EXPECT_THAT(rig_.outcomes(), ElementsAre(RequestOutcome::kGroupLost));
  worker_ended_.WaitFor(1);
}

TEST_F(GenerationTest, AcceptedHasATokenOfNothing) {
  ScriptEndless();
  const auto stream = rig_.Generate("me");
  v1::GenerateEvent event;
  ASSERT_TRUE(stream->Read(event));
  const auto point =
      ResumeKey::Of(std::string(32, 'k')).Open(event.accepted().resume_token());
  ASSERT_OK(point);
  EXPECT_EQ(point->seed, event.accepted().sampling().seed());
  EXPECT_EQ(point->choices, std::vector<SentPart>(1));
}

TEST_F(GenerationTest, PassesOnWhatTheWorkerRefusesWith) {
  ScriptStatus(
      ToGrpc(ReasonedError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
                           "3 active; at most 3", {{"limit", "3"}})));
  const auto stream = Begin(RequestOf("me"));
  const absl::Status status = stream->End();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               "3 active; at most 3"));
  EXPECT_EQ(ReasonOf(status).word, "QUEUE_FULL");
  EXPECT_EQ(ReasonOf(status).metadata.at("limit"), "3");
}

TEST_F(GenerationTest, AWorkerThatEndsWithoutAFinishIsABug) {
  ScriptStatus(grpc::Status::OK);
  const auto stream = Begin(RequestOf("me"));
  const absl::Status status = stream->End();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                               HasSubstr("without a finish")));
  EXPECT_EQ(ReasonOf(status).word, "BUG");
}

TEST_F(GenerationTest, ASecondStreamOfOneIdIsRefused) {
  ScriptEndless();
  const auto first = Begin(RequestOf("me"));
  const absl::Status status = rig_.Generate("me")->End();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(status).word, "REQUEST_ACTIVE");
  // The refusal did not free the id of the stream that runs.
  EXPECT_EQ(ReasonOf(rig_.Generate("me")->End()).word, "REQUEST_ACTIVE");
}

TEST_F(GenerationTest, AnIdMayBeUsedAgainAsSoonAsItsStreamHasEnded) {
  rig_.worker().SetScript([](grpc::ServerContext&,
                             const v1::WorkerGenerateRequest&,
                             FakeWorker::Writer& writer) {
    writer.Write(FinishedEvent(v1::WorkerFinished::LENGTH));
    return grpc::Status::OK;
  });
  for (int i = 0; i < 20; ++i) {
    const auto stream = rig_.Generate("me");
    stream->ReadAll();
    EXPECT_OK(stream->End());
  }
}

TEST(GenerationAdmission, AStreamHoldsOnePlaceUntilItsEnd) {
  GatewayRig rig(ReadyStatus(0, 1, 7), /*max_requests=*/1);
  Event go;
  rig.worker().SetScript([&](grpc::ServerContext&,
                             const v1::WorkerGenerateRequest&,
                             FakeWorker::Writer& writer) {
    go.Wait();
    writer.Write(FinishedEvent(v1::WorkerFinished::LENGTH));
    return grpc::Status::OK;
  });
  const auto first = rig.Generate("a");
  v1::GenerateEvent event;
  ASSERT_TRUE(first->Read(event));
  const absl::Status status = rig.Generate("b")->End();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status).word, "QUEUE_FULL");
  EXPECT_EQ(ReasonOf(status).metadata.at("limit"), "1");
  go.Set();
  first->ReadAll();
  EXPECT_OK(first->End());
  const auto second = rig.Generate("b");
  second->ReadAll();
  EXPECT_OK(second->End());
}

// A worker with big messages (their log-probabilities are not asked for, so
// the gateway's stay small), so that few of them fit into the sockets.
class SlowClientTest : public GenerationTest {
 protected:
  static constexpr int kMessages = 3000;
  // The gateway's queue, as many in the event that is under way, a socket's
  // buffers, and some that are in a hand.
  static constexpr int64_t kMostAhead = 256 + 256 + 500;

  // Writes `kMessages` messages of one token each, or until nobody reads.
  void ScriptBigMessages() {
    rig_.worker().SetScript([this](grpc::ServerContext&,
                                   const v1::WorkerGenerateRequest&,
                                   FakeWorker::Writer& writer) {
      v1::WorkerGenerateEvent event = TokensEvent({'x'});
      for (int i = 0; i < 2000; ++i) {
        v1::WorkerTopLogprob& top = *event.mutable_tokens(0)->add_top();
        top.set_token_id(i);
        top.set_logprob(-1);
      }
      for (int i = 0; i < kMessages; ++i) {
        event.mutable_tokens(0)->set_token_id('a' + i % 26);
        if (!writer.Write(event)) return grpc::Status::OK;
        written_.Add();
      }
      writer.Write(FinishedEvent(v1::WorkerFinished::LENGTH));
      return grpc::Status::OK;
    });
  }

  Counter written_;
};

TEST_F(SlowClientTest, HoldsTheWorkerBackAndLosesNothing) {
  ScriptBigMessages();
  const auto stream = rig_.Generate("me");
  written_.WaitFor(258);  // The gateway's queue is full.
  v1::GenerateEvent event;
  std::string text;
  int64_t most_ahead = 0;
  for (uint64_t seq = 1; stream->Read(event); ++seq) {
    EXPECT_EQ(event.seq(), seq);
    text += event.delta().text();
    const auto read = static_cast<int64_t>(text.size());
    most_ahead = std::max(most_ahead, written_.count() - read);
  }
  EXPECT_OK(stream->End());
  EXPECT_LE(most_ahead, kMostAhead);
  ASSERT_EQ(text.size(), static_cast<size_t>(kMessages));
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(text[i], 'a' + i % 26);
}

TEST_F(SlowClientTest, AWorkerThatDiesWhileItIsHeldBackIsALostGroup) {
  ScriptBigMessages();
  const auto stream = rig_.Generate("me");
  written_.WaitFor(258);
  rig_.worker().Kill();
  // What it had is delivered.
  EXPECT_GE(TextOf(stream->ReadAll()).size(), 256u);
  EXPECT_EQ(ReasonOf(stream->End()).word, "GROUP_LOST");
}

TEST_F(SlowClientTest, CancelReachesAWorkerThatIsHeldBack) {
  ScriptBigMessages();
  const auto stream = rig_.Generate("me");
  written_.WaitFor(258);
  v1::CancelRequest request;
  request.set_all(true);
  EXPECT_EQ(rig_.Cancel(request).cancelled(), 1);
  ExpectCancelledByClient(*stream);
}

TEST_F(SlowClientTest, AClientThatGoesAwayReleasesAWorkerThatIsHeldBack) {
  ScriptBigMessages();
  const auto stream = rig_.Generate("me");
  written_.WaitFor(258);
  stream->GoAway();
  EXPECT_TRUE(absl::IsCancelled(stream->End()));
  EXPECT_LT(written_.count(), kMessages);
}

TEST_F(GenerationTest, FiftyStreamsAtOnceEachGetTheirOwn) {
  rig_.worker().SetScript([](grpc::ServerContext&,
                             const v1::WorkerGenerateRequest& request,
                             FakeWorker::Writer& writer) {
    for (const int32_t id : BytesOf(std::to_string(request.seed())))
      writer.Write(TokensEvent({id}));
    writer.Write(FinishedEvent(v1::WorkerFinished::LENGTH));
    return grpc::Status::OK;
  });
  std::vector<std::thread> clients;
  for (int i = 0; i < 50; ++i)
    clients.emplace_back([this, i] {
      v1::GenerateRequest request = RequestOf("client-" + std::to_string(i));
      request.mutable_sampling()->set_seed(1000 + i);
      const auto stream = rig_.Generate(request);
      EXPECT_EQ(TextOf(stream->ReadAll()), std::to_string(1000 + i));
      EXPECT_OK(stream->End());
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(rig_.admission().held(), 0);
}

}  // namespace
}  // namespace phalanx
