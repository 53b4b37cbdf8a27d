// The events of a stream: choices, the prompt, what workers say beside tokens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gateway/api/generation.h"
#include "tests/gateway/api/api_fixtures.h"
#include "tests/gateway/api/gateway_rig.h"
#include "tests/gateway/api/scripted_answer.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GenerationEventsTest : public testing::Test {
 protected:
  void Script(FakeWorker::Script script) {
    rig_.worker().SetScript(std::move(script));
  }
  void ScriptAnswer(const ScriptedAnswer& answer) {
    Script([&answer](grpc::ServerContext&,
                     const v1::WorkerGenerateRequest& request,
                     FakeWorker::Writer& writer) {
      return answer.Run(request, writer);
    });
  }
  // Log-probabilities of the prompt, in messages of one, then one token.
  void ScriptPrompt() {
    Script([this](grpc::ServerContext&,
                  const v1::WorkerGenerateRequest& request,
                  FakeWorker::Writer& writer) {
      {
        MutexLock lock(mutex_);
        asked_.push_back(request.prompt_logprobs());
      }
      for (int i = 1;
           request.prompt_logprobs() && i < request.prompt_ids_size(); ++i) {
        v1::WorkerGenerateEvent event;
        v1::WorkerToken& token = *event.add_prompt_tokens();
        token.set_token_id(request.prompt_ids(i));
        token.set_logprob(-static_cast<float>(i));
        writer.Write(event);
      }
      if (request.max_tokens() > 0) writer.Write(TokensEvent({'x'}));
      writer.Write(FinishedEvent(v1::WorkerFinished::LENGTH));
      return grpc::Status::OK;
    });
  }
  std::vector<v1::GenerateEvent> Run(const v1::GenerateRequest& request) {
    const auto stream = rig_.Generate(request);
    std::vector<v1::GenerateEvent> events = stream->ReadAll();
    EXPECT_OK(stream->End());
    return events;
  }

  GatewayRig rig_{ReadyStatus(0, 1, 7)};
  Mutex mutex_;
  std::vector<bool> asked_ ABSL_GUARDED_BY(mutex_);
};

v1::GenerateRequest LongPrompt() {
  v1::GenerateRequest request = RequestOf("me");
  request.set_text("prompt");
  return request;
}

TEST_F(GenerationEventsTest, EveryChoiceHasOneFinishAndTheStreamOneSummary) {
  const ScriptedAnswer answer({BytesOf("first"), {'2', 261}});
  ScriptAnswer(answer);
  v1::GenerateRequest request = RequestOf("me");
  request.set_n(2);
  const std::vector<v1::GenerateEvent> events = Run(request);
  Received received;
  received.Add(events);
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].seq(), i + 1);
  ASSERT_EQ(received.choices.size(), 2u);
  EXPECT_EQ(received.choices[0].ids, answer.ids(0));
  EXPECT_EQ(received.choices[1].ids, answer.ids(1));
  EXPECT_THAT(received.choices[0].finished, HasSubstr("LENGTH"));
  EXPECT_THAT(received.choices[1].finished, HasSubstr("STOP"));
  EXPECT_TRUE(events.back().has_summary());
  EXPECT_EQ(events.back().summary().completion_tokens(), 7);
  EXPECT_EQ(rig_.admission().held(), 0);
}

TEST_F(GenerationEventsTest, ChoicesShareASeedAndDifferInTheirIndex) {
  std::vector<v1::WorkerGenerateRequest> requests;
  Script([&](grpc::ServerContext&, const v1::WorkerGenerateRequest& request,
             FakeWorker::Writer& writer) {
    {
      MutexLock lock(mutex_);
      requests.push_back(request);
    }
    writer.Write(FinishedEvent(v1::WorkerFinished::LENGTH));
    return grpc::Status::OK;
  });
  v1::GenerateRequest request = RequestOf("me");
  request.set_n(2);
  Run(request);
  ASSERT_EQ(requests.size(), 2u);
  if (requests[0].choice_index() == 1) std::swap(requests[0], requests[1]);
  EXPECT_EQ(requests[1].choice_index(), 1);
  requests[1].set_choice_index(0);
  EXPECT_EQ(requests[0].SerializeAsString(), requests[1].SerializeAsString());
}

TEST_F(GenerationEventsTest, OneChoicesErrorEndsTheStream) {
  Script([](grpc::ServerContext&, const v1::WorkerGenerateRequest& request,
            FakeWorker::Writer& writer) {
    if (request.choice_index() == 1)
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full");
    return WriteUntilNobodyReads(writer);
  });
  v1::GenerateRequest request = RequestOf("me");
  request.set_n(2);
  const auto stream = rig_.Generate(request);
  stream->ReadAll();
  EXPECT_THAT(stream->End(),
              StatusIs(absl::StatusCode::kResourceExhausted, "full"));
}

TEST_F(GenerationEventsTest, EchoesThePromptBeforeTheAnswer) {
  const ScriptedAnswer answer({BytesOf("x")});
  ScriptAnswer(answer);
  v1::GenerateRequest request = LongPrompt();
  request.mutable_output()->set_echo(true);
  const auto events = Run(request);
  ASSERT_TRUE(events[1].has_prompt());
  EXPECT_EQ(events[1].prompt().text(), "prompt");
  EXPECT_EQ(events[1].prompt().token_ids_size(), 6);
  EXPECT_EQ(events[1].prompt().logprobs_size(), 0);
}

TEST_F(GenerationEventsTest, GivesThePromptsLogprobsOnceBeforeAnyChoice) {
  ScriptPrompt();
  v1::GenerateRequest request = LongPrompt();
  request.set_n(3);
  request.mutable_output()->set_prompt_logprobs(true);
  const auto events = Run(request);
  ASSERT_TRUE(events[1].has_prompt());
  const v1::Prompt& prompt = events[1].prompt();
  EXPECT_EQ(prompt.text(), "");
  ASSERT_EQ(prompt.logprobs_size(), 5);
  EXPECT_EQ(prompt.logprobs(4).token_id(), 't');
  EXPECT_EQ(prompt.logprobs(4).logprob(), -5);
  for (size_t i = 2; i < events.size(); ++i)
    EXPECT_FALSE(events[i].has_prompt());
  EXPECT_THAT(asked_, ElementsAre(true, false, false));
}

TEST_F(GenerationEventsTest, NothingMayBeGeneratedAtAll) {
  ScriptPrompt();
  v1::GenerateRequest request = LongPrompt();
  request.set_n(2);
  request.mutable_stopping()->set_max_tokens(0);
  request.mutable_output()->set_prompt_logprobs(true);
  Received received;
  received.Add(Run(request));
  EXPECT_THAT(received.prompt, HasSubstr("logprob: -5"));
  EXPECT_THAT(received.choices[0].finished, HasSubstr("LENGTH"));
  EXPECT_THAT(received.choices[1].finished, HasSubstr("LENGTH"));
  EXPECT_EQ(received.summary.completion_tokens(), 0);
  EXPECT_THAT(asked_, ElementsAre(true));
}

TEST_F(GenerationEventsTest, AnEchoAloneNeedsNoWorker) {
  ScriptPrompt();
  v1::GenerateRequest request = LongPrompt();
  request.mutable_stopping()->set_max_tokens(0);
  request.mutable_output()->set_echo(true);
  Received received;
  received.Add(Run(request));
  EXPECT_THAT(received.prompt, HasSubstr("text: \"prompt\""));
  EXPECT_TRUE(asked_.empty());
}

TEST_F(GenerationEventsTest, APromptOfOneTokenHasNoLogprobs) {
  ScriptPrompt();
  v1::GenerateRequest request = RequestOf("me");
  request.mutable_output()->set_prompt_logprobs(true);
  const auto events = Run(request);
  ASSERT_TRUE(events[1].has_prompt());
  EXPECT_EQ(events[1].prompt().logprobs_size(), 0);
}

TEST_F(GenerationEventsTest, NoticesThatItsCachesWereGivenUp) {
  Script([](grpc::ServerContext&, const v1::WorkerGenerateRequest&,
            FakeWorker::Writer& writer) {
    writer.Write(TokensEvent({'h'}));
    v1::WorkerGenerateEvent event = TokensEvent({'i'});
    event.set_preemptions(2);
    writer.Write(event);
    writer.Write(FinishedEvent(v1::WorkerFinished::LENGTH));
    return grpc::Status::OK;
  });
  Received received;
  received.Add(Run(RequestOf("me")));
  ASSERT_EQ(received.notices.size(), 1u);
  EXPECT_EQ(received.notices[0].kind(), v1::Notice::PREEMPTED);
  EXPECT_EQ(received.summary.preemptions(), 2);
  EXPECT_THAT(received.choices[0].ids, ElementsAre('h', 'i'));
}

TEST_F(GenerationEventsTest, TheTimeLimitIsAnEnd) {
  Script([](grpc::ServerContext&, const v1::WorkerGenerateRequest&,
            FakeWorker::Writer& writer) {
    writer.Write(TokensEvent({'h'}));
    writer.Write(FinishedEvent(v1::WorkerFinished::TIME_LIMIT));
    return grpc::Status::OK;
  });
  const auto events = Run(RequestOf("me"));
  EXPECT_EQ(events[events.size() - 2].finished().reason(),
            v1::FINISH_REASON_TIME_LIMIT);
}

}  // namespace
}  // namespace phalanx
