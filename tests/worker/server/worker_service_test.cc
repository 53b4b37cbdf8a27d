// What gateways may ask of a rank, and what they get.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/reason.h"
#include "tests/worker/server/worker_service_rig.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

TEST_F(WorkerServiceTest, StreamsEveryTokenInOrderAndThenOk) {
  Stream stream(*stub_, RequestOf("a"));
  TokenSink* sink = Take();
  sink->Admitted(0.5, 0);
  v1::WorkerGenerateEvent event;
  ASSERT_TRUE(stream.reader->Read(&event));
  EXPECT_EQ(event.epoch(), kEpoch);
  EXPECT_EQ(event.queue_seconds(), 0.5);
  std::vector<int32_t> got;
  for (int32_t id = 0; id < 50; ++id) {
    sink->Push({{.id = id, .logprob = -1.0f * id, .top = {{id, -0.5f}}}});
    ASSERT_TRUE(stream.reader->Read(&event));
    for (const v1::WorkerToken& token : event.tokens()) {
      got.push_back(token.token_id());
      EXPECT_EQ(token.logprob(), -1.0f * token.token_id());
      EXPECT_EQ(token.top(0).token_id(), token.token_id());
    }
  }
  Ended("a");
  sink->Finish(FinishReason::kStop, 49);
  ASSERT_TRUE(stream.reader->Read(&event));
  EXPECT_EQ(event.finished().reason(), v1::WorkerFinished::STOP);
  EXPECT_EQ(event.finished().stop_id(), 49);
  EXPECT_FALSE(stream.reader->Read(&event));
  EXPECT_OK(stream.End());
  for (int32_t id = 0; id < 50; ++id) EXPECT_EQ(got[id], id);
}

TEST_F(WorkerServiceTest, NeverMakesTheEngineWaitForASlowClient) {
  Stream stream(*stub_, RequestOf("a"));
  TokenSink* sink = Take();
  sink->Admitted(0, 0);
  for (int32_t i = 0; i < 20'000; ++i) sink->Push(OneToken(i % 300));
  Ended("a");
  sink->Finish(FinishReason::kLength, 0);
  v1::WorkerGenerateEvent event;
  int32_t tokens = 0;
  while (stream.reader->Read(&event))
    for (const v1::WorkerToken& token : event.tokens())
      EXPECT_EQ(token.token_id(), tokens++ % 300);
  EXPECT_EQ(tokens, 20'000);
  EXPECT_OK(stream.End());
}

TEST_F(WorkerServiceTest, GathersTokensInOneMessageWhileAWriteIsInFlight) {
  Stream stream(*stub_, RequestOf("a"));
  TokenSink* sink = Take();
  sink->Admitted(0, 0);
  for (int32_t id = 0; id < 10; ++id) sink->Push(OneToken(id));
  Ended("a");
  sink->Finish(FinishReason::kLength, 0);
  v1::WorkerGenerateEvent event;
  ASSERT_TRUE(stream.reader->Read(&event));
  EXPECT_EQ(event.tokens_size(), 0);
  ASSERT_TRUE(stream.reader->Read(&event));
  EXPECT_EQ(event.tokens_size(), 10);
  EXPECT_TRUE(event.has_finished());
  EXPECT_FALSE(stream.reader->Read(&event));
  EXPECT_OK(stream.End());
}

TEST_F(WorkerServiceTest, RefusesAnEmptyPromptWithoutQueueingIt) {
  v1::WorkerGenerateRequest request = RequestOf("a");
  request.clear_prompt_ids();
  const absl::Status status = Stream(*stub_, request).End();
  EXPECT_EQ(ReasonOf(status).word, "PROMPT_EMPTY");
  EXPECT_EQ(inbox_.active(), 0);
}

TEST_F(WorkerServiceTest, PassesOnTheSchedulersRefusal) {
  std::vector<std::unique_ptr<Stream>> held;
  std::vector<TokenSink*> sinks;
  for (const char* id : {"a", "b", "c"}) {
    held.push_back(std::make_unique<Stream>(*stub_, RequestOf(id)));
    sinks.push_back(Take());
  }
  const absl::Status status = Stream(*stub_, RequestOf("d")).End();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               "3 sequences are active; at most 3"));
  EXPECT_EQ(ReasonOf(status).word, "QUEUE_FULL");
  EXPECT_EQ(ReasonOf(status).metadata.at("limit"), "3");
  for (TokenSink* sink : sinks) sink->Close(absl::UnavailableError("over"));
  for (const auto& stream : held) EXPECT_FALSE(stream->End().ok());
}

TEST_F(WorkerServiceTest, EndsWithTheErrorTheEngineGave) {
  Stream stream(*stub_, RequestOf("a"));
  TokenSink* sink = Take();
  sink->Admitted(0, 0);
  sink->Push(OneToken(1));
  Ended("a");
  sink->Close(ReasonedError(absl::StatusCode::kUnavailable, "GROUP_LOST",
                            "rank 1 is gone", {{"rank", "1"}}));
  v1::WorkerGenerateEvent event;
  ASSERT_TRUE(stream.reader->Read(&event));
  ASSERT_TRUE(stream.reader->Read(&event));
  EXPECT_EQ(event.tokens(0).token_id(), 1);
  EXPECT_FALSE(stream.reader->Read(&event));
  const absl::Status status = stream.End();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable, "rank 1 is gone"));
  EXPECT_EQ(ReasonOf(status).word, "GROUP_LOST");
  EXPECT_EQ(ReasonOf(status).metadata.at("rank"), "1");
}

TEST_F(WorkerServiceTest, TellsTheEngineWhenTheClientGoesAway) {
  Stream stream(*stub_, RequestOf("a"));
  TokenSink* sink = Take();
  sink->Admitted(0, 0);
  EXPECT_FALSE(sink->cancelled());
  stream.context.TryCancel();
  while (!sink->cancelled()) std::this_thread::yield();
  sink->Push(OneToken(1));  // Of the step that was under way.
  Ended("a");
  sink->Close(ReasonedError(absl::StatusCode::kCancelled, "CLIENT", "gone"));
  EXPECT_TRUE(absl::IsCancelled(stream.End()));
}

TEST_F(WorkerServiceTest, AStaleEpochIsRefusedWithBothNumbers) {
  v1::WorkerGenerateRequest request = RequestOf("a");
  request.set_epoch(kEpoch - 1);
  const absl::Status status = Stream(*stub_, request).End();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status).word, "STALE_EPOCH");
  EXPECT_EQ(ReasonOf(status).metadata.at("epoch"), "5");
  EXPECT_EQ(ReasonOf(status).metadata.at("actual"), "4");
}

TEST_F(WorkerServiceTest, CancelSaysWhetherTheRequestIsHere) {
  board_.Write([](WorkerSnapshot& s) { s.epoch = kEpoch; });
  Stream stream(*stub_, RequestOf("a"));
  TokenSink* sink = Take();
  bool found = false;
  EXPECT_OK(Cancel(kEpoch, "a", &found));
  EXPECT_TRUE(found);
  EXPECT_EQ(inbox_.Drain().cancelled_ids.count("a"), 1u);
  EXPECT_OK(Cancel(kEpoch, "b", &found));
  EXPECT_FALSE(found);
  Ended("a");
  sink->Close(absl::CancelledError("cancelled"));
  EXPECT_TRUE(absl::IsCancelled(stream.End()));
}

TEST_F(WorkerServiceTest, CancelOfAStaleEpochIsRefused) {
  board_.Write([](WorkerSnapshot& s) { s.epoch = kEpoch; });
  bool found = false;
  const absl::Status status = Cancel(kEpoch - 1, "a", &found);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               "epoch is 4; the group's is 5"));
  EXPECT_EQ(ReasonOf(status).word, "STALE_EPOCH");
}

TEST_F(WorkerServiceTest, GetStatusShowsTheBoardBesideTheFacts) {
  v1::WorkerStatus facts;
  facts.set_rank(1);
  facts.set_kv_blocks_total(9);
  facts.set_state_slots_total(3);
  facts.set_max_running(16);
  service_.Describe(facts);
  board_.Write([](WorkerSnapshot& s) {
    s.state = WorkerState::kReady;
    s.epoch = kEpoch;
    s.load_progress = 0.25;
    s.load_total_bytes = 800;
    s.steps = 12;
    s.warmup_logits_hash = 77;
    s.counts.running = 2;
    s.counts.waiting = 1;
    s.counts.kv_blocks_used = 4;
    s.counts.kv_blocks_reusable = 3;
    s.counts.kv_blocks_total = 8;
    s.counts.state_slots_used = 2;
    s.counts.state_slots_snapshot = 1;
    s.counts.preempted_for_kv = 21;
    s.counts.preempted_for_state = 22;
    s.counts.preempted_for_priority = 23;
    s.counts.prefix_queried_tokens = 700;
    s.counts.prefix_hit_tokens = 600;
    s.counts.oldest_wait_seconds = 1.5;
  });
  grpc::ClientContext context;
  v1::WorkerStatus status;
  ASSERT_TRUE(
      stub_->GetStatus(&context, v1::WorkerStatusRequest(), &status).ok());
  EXPECT_EQ(status.rank(), 1);
  EXPECT_EQ(status.state(), v1::RANK_STATE_READY);
  EXPECT_EQ(status.epoch(), kEpoch);
  EXPECT_EQ(status.load_progress(), 0.25);
  EXPECT_EQ(status.load_total_bytes(), 800);
  EXPECT_EQ(status.steps(), 12);
  EXPECT_EQ(status.warmup_logits_hash(), 77u);
  EXPECT_EQ(status.requests_running(), 2);
  EXPECT_EQ(status.requests_waiting(), 1);
  EXPECT_EQ(status.kv_blocks_used(), 4);
  EXPECT_EQ(status.kv_blocks_reusable(), 3);
  EXPECT_EQ(status.state_slots_used(), 2);
  EXPECT_EQ(status.state_slots_snapshot(), 1);
  EXPECT_EQ(status.preempted_for_kv(), 21);
  EXPECT_EQ(status.preempted_for_state(), 22);
  EXPECT_EQ(status.preempted_for_priority(), 23);
  EXPECT_EQ(status.prefix_queried_tokens(), 700);
  EXPECT_EQ(status.prefix_hit_tokens(), 600);
  EXPECT_EQ(status.oldest_wait_seconds(), 1.5);
  EXPECT_EQ(status.max_running(), 16);
  EXPECT_EQ(status.kv_blocks_total(), 8);    // What the group agreed on.
  EXPECT_EQ(status.state_slots_total(), 3);  // Its own: nothing agreed yet.
}

TEST_F(WorkerServiceTest, GetStatusOfAnotherEpochIsRefused) {
  grpc::ClientContext context;
  v1::WorkerStatusRequest request;
  request.set_epoch(kEpoch);
  v1::WorkerStatus response;
  EXPECT_EQ(
      ReasonOf(FromGrpc(stub_->GetStatus(&context, request, &response))).word,
      "STALE_EPOCH");
}

class FollowerServiceTest : public WorkerServiceTest {
 protected:
  FollowerServiceTest() : WorkerServiceTest(/*leads=*/false) {}
};

TEST_F(FollowerServiceTest, GenerateIsWrongState) {
  const absl::Status status = Stream(*stub_, RequestOf("a")).End();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("rank 0 only")));
  EXPECT_EQ(ReasonOf(status).word, "WRONG_STATE");
}

TEST_F(FollowerServiceTest, CancelIsWrongState) {
  bool found = false;
  EXPECT_EQ(ReasonOf(Cancel(kEpoch, "a", &found)).word, "WRONG_STATE");
}

}  // namespace
}  // namespace phalanx
