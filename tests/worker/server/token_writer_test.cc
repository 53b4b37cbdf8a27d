// One stream between an engine and a gateway. In this process a write completes
// only when it is read, so a test decides what waits behind it.

#include "worker/server/token_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/worker/server/worker_service_rig.h"

namespace phalanx {
namespace {

constexpr std::chrono::seconds kPatience{20};

std::vector<Token> Tokens(int64_t count) {
  std::vector<Token> tokens(count);
  for (int64_t i = 0; i < count; ++i)
    tokens[i].id = static_cast<int32_t>(i % 300);
  return tokens;
}

class TokenWriterTest : public WorkerServiceTest {
 protected:
  TokenWriterTest() : stream_(*stub_, RequestOf("a")), sink_(Take()) {}

  v1::WorkerGenerateEvent Read() {
    v1::WorkerGenerateEvent event;
    EXPECT_TRUE(stream_.reader->Read(&event));
    return event;
  }
  // The first message stays in flight until it is read.
  void Admit() { sink_->Admitted(0.25, 7); }
  bool Woken() { return inbox_.WaitForWork(kPatience); }
  void EndStream() {
    Ended("a");
    sink_->Finish(FinishReason::kLength, 0);
    v1::WorkerGenerateEvent event;
    while (stream_.reader->Read(&event)) {
    }
    EXPECT_OK(stream_.End());
  }

  Stream stream_;
  TokenSink* sink_;
};

TEST_F(TokenWriterTest, TheFirstMessageSaysWhatAdmissionCostAndFound) {
  Admit();
  sink_->Push(OneToken(5));

  const v1::WorkerGenerateEvent first = Read();
  const v1::WorkerGenerateEvent second = Read();

  EXPECT_EQ(first.queue_seconds(), 0.25);
  EXPECT_EQ(first.cached_tokens(), 7);
  EXPECT_FALSE(second.has_queue_seconds());
  EndStream();
}

TEST_F(TokenWriterTest, PreemptionsAreThoseSinceTheLastMessage) {
  Admit();
  sink_->Preempted();
  sink_->Preempted();
  sink_->Push(OneToken(5));
  EXPECT_EQ(Read().preemptions(), 0);

  const v1::WorkerGenerateEvent second = Read();
  sink_->Push(OneToken(6));
  const v1::WorkerGenerateEvent third = Read();

  EXPECT_EQ(second.preemptions(), 2);
  EXPECT_EQ(second.tokens_size(), 1);
  EXPECT_EQ(third.preemptions(), 0);
  EndStream();
}

TEST_F(TokenWriterTest, APreemptionIsToldWithoutWaitingForAToken) {
  Admit();
  Read();

  sink_->Preempted();

  EXPECT_EQ(Read().preemptions(), 1);
  EndStream();
}

TEST_F(TokenWriterTest, PromptTokensComeWithTheirLogProbabilities) {
  Admit();
  Read();

  sink_->PushPrompt({{.id = 3, .logprob = -0.5f, .top = {{4, -0.25f}}},
                     {.id = 8, .logprob = -2, .top = {}}});

  const v1::WorkerGenerateEvent event = Read();
  ASSERT_EQ(event.prompt_tokens_size(), 2);
  EXPECT_EQ(event.prompt_tokens(0).token_id(), 3);
  EXPECT_EQ(event.prompt_tokens(0).logprob(), -0.5f);
  EXPECT_EQ(event.prompt_tokens(0).top(0).token_id(), 4);
  EXPECT_EQ(event.prompt_tokens(1).token_id(), 8);
  EXPECT_EQ(event.tokens_size(), 0);
  EndStream();
}

// --- Trials ----------------------------------------------------------------

TEST_F(TokenWriterTest, ATrialIsKnownOnceItsMessageIsWritten) {
  Admit();
  EXPECT_FALSE(Read().on_trial());

  sink_->OnTrial();

  EXPECT_FALSE(sink_->trial_known());
  EXPECT_TRUE(Read().on_trial());
  EXPECT_TRUE(Woken());
  EXPECT_TRUE(sink_->trial_known());
  EndStream();
}

TEST_F(TokenWriterTest, ATrialBehindAWriteIsNotKnownByTheEndOfThatWrite) {
  Admit();
  sink_->OnTrial();
  Read();
  sink_->Push(OneToken(1));

  EXPECT_FALSE(sink_->trial_known());
  EXPECT_TRUE(Read().on_trial());
  EXPECT_TRUE(Woken());
  EXPECT_TRUE(sink_->trial_known());
  EndStream();
}

// --- Slow readers ----------------------------------------------------------

TEST_F(TokenWriterTest, IsFullOnceMoreThanItsBoundWaitsBehindAWrite) {
  Admit();
  sink_->Push(Tokens(kFullTokens));
  EXPECT_FALSE(sink_->full());

  sink_->Push(OneToken(1));

  EXPECT_TRUE(sink_->full());
  EndStream();
}

TEST_F(TokenWriterTest, HasRoomAgainOnceTheyAreRead) {
  Admit();
  sink_->Push(Tokens(kFullTokens + 1));
  ASSERT_TRUE(sink_->full());

  Read();

  EXPECT_TRUE(Woken());
  EXPECT_FALSE(sink_->full());
  EXPECT_EQ(Read().tokens_size(), kFullTokens + 1);
  EndStream();
}

TEST_F(TokenWriterTest, WhatIsInFlightDoesNotFillIt) {
  sink_->OnTrial();
  Read();
  ASSERT_TRUE(Woken());  // So nothing is in flight now.

  sink_->Push(Tokens(10 * kFullTokens));

  EXPECT_FALSE(sink_->full());
  EndStream();
}

TEST_F(TokenWriterTest, PromptTokensFillItToo) {
  Admit();
  sink_->PushPrompt(Tokens(kFullTokens));
  EXPECT_FALSE(sink_->full());

  sink_->Push(OneToken(1));

  EXPECT_TRUE(sink_->full());
  EndStream();
}

TEST_F(TokenWriterTest, AReaderThatLeavesWakesTheEngineAndLeavesNothing) {
  Admit();
  sink_->Push(Tokens(kFullTokens + 1));

  stream_.context.TryCancel();

  EXPECT_TRUE(Woken());
  EXPECT_TRUE(sink_->cancelled());
  sink_->Preempted();
  Ended("a");
  sink_->Close(absl::CancelledError("gone"));
  EXPECT_TRUE(absl::IsCancelled(stream_.End()));
}

}  // namespace
}  // namespace phalanx
