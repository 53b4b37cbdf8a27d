// Resume: a stream that broke at one gateway goes on at another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/reason.h"
#include "gateway/api/inference_service.h"
#include "tests/gateway/api/api_fixtures.h"
#include "tests/gateway/api/gateway_rig.h"
#include "tests/gateway/api/scripted_answer.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// The second outlasts the first, so a break leaves one to go on with.
const std::vector<std::vector<int32_t>> kAnswers = {
    BytesOf("m\u00e9m</think>\n\no\u20ack STO STOP and more"),
    BytesOf("no \u20ac, no end of this, however long one reads it")};

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() {
    request_.set_request_id("me");
    v1::ChatMessage& message = *request_.add_messages();
    message.set_role("user");
    message.set_content("hi");
    request_.set_n(2);
    request_.mutable_stopping()->add_stop_strings("STOP");
    request_.mutable_output()->set_logprobs(true);
    Script(second_, 1000);
  }

  // Every choice gets so many tokens of its answer; with fewer than there are,
  // the worker then stays silent until `over`.
  void Script(GatewayRig& rig, size_t until,
              std::shared_ptr<Event> over = nullptr) {
    rig.worker().SetScript(
        [this, until, over](grpc::ServerContext&,
                            const v1::WorkerGenerateRequest& request,
                            FakeWorker::Writer& writer) {
          {
            MutexLock lock(mutex_);
            asked_.push_back(request);
          }
          const std::vector<int32_t>& ids = answer_.ids(request.choice_index());
          if (until >= ids.size()) return answer_.Run(request, writer);
          answer_.Write(request, writer, until);
          over->Wait();
          return grpc::Status::OK;
        });
  }
  void RunInto(GatewayRig& rig, const auto& request, Received& received) {
    ClientStream stream(rig.stub(), request);
    received.Add(stream.ReadAll());
    end_ = stream.End();
  }
  Received RunAll(GatewayRig& rig, const auto& request) {
    Received received;
    RunInto(rig, request, received);
    return received;
  }
  // A stream of the first gateway that is handed over once every choice has at
  // least `cut` tokens, or is finished; its token.
  std::string Break(size_t cut, Received& received) {
    const auto over = std::make_shared<Event>();
    Script(first_, cut, over);
    ClientStream stream(first_.stub(), request_);
    v1::GenerateEvent event;
    const auto there = [&] {
      for (int i = 0; i < 2; ++i)
        if (received.choices[i].ids.size() < cut &&
            received.choices[i].finished.empty())
          return false;
      return true;
    };
    do {
      if (!stream.Read(event)) break;
      received.Add({event});
    } while (!there());
    first_.active().DrainAll();
    over->Set();
    received.Add(stream.ReadAll());
    Reason reason = ReasonOf(stream.End());
    EXPECT_EQ(reason.word, "DRAINING");
    return reason.metadata["resume_token"];
  }
  v1::ResumeRequest Resumption(const std::string& token) {
    v1::ResumeRequest request;
    *request.mutable_chat() = request_;
    request.set_token(token);
    return request;
  }
  static void Attach(Received& received, v1::ResumeRequest& request) {
    for (auto& [index, choice] : received.choices)
      request.add_emitted()->mutable_ids()->Add(choice.ids.begin(),
                                                choice.ids.end());
  }
  void ExpectResumed(bool with_ids, bool with_first_token) {
    const Received whole = RunAll(second_, request_);
    EXPECT_OK(end_);
    for (size_t cut = 0; cut < kAnswers[0].size(); ++cut) {
      Received received;
      v1::ResumeRequest request = Resumption(Break(cut, received));
      if (with_first_token) request.set_token(received.accepted.resume_token());
      if (with_ids) Attach(received, request);
      for (auto& [index, choice] : received.choices) choice.finished.clear();
      RunInto(second_, request, received);
      EXPECT_OK(end_);
      EXPECT_THAT(received.notices, IsEmpty());
      EXPECT_EQ(received.choices, whole.choices) << "cut at " << cut;
    }
  }

  const ScriptedAnswer answer_{kAnswers};
  Mutex mutex_;
  std::vector<v1::WorkerGenerateRequest> asked_ ABSL_GUARDED_BY(mutex_);
  GatewayRig first_{ReadyStatus(0, 1, 7)};
  GatewayRig second_{ReadyStatus(0, 1, 9)};
  v1::ChatRequest request_;
  absl::Status end_;
};

TEST_F(ResumeTest, ComputesAgainAndSendsWhatIsMissing) {
  ExpectResumed(/*with_ids=*/false, /*with_first_token=*/false);
}

TEST_F(ResumeTest, GoesOnBehindTheIdsOfTheClient) {
  ExpectResumed(/*with_ids=*/true, /*with_first_token=*/false);
}

TEST_F(ResumeTest, TheTokenOfAcceptedAndTheIdsDo) {
  ExpectResumed(/*with_ids=*/true, /*with_first_token=*/true);
}

TEST_F(ResumeTest, TheSeedIsTheStreams) {
  Received received;
  const std::string token = Break(2, received);
  const Received rest = RunAll(second_, Resumption(token));
  EXPECT_OK(end_);
  EXPECT_EQ(rest.accepted.sampling().seed(),
            received.accepted.sampling().seed());
}

TEST_F(ResumeTest, IdsOfTheClientAreNotComputedAgain) {
  Received received;
  v1::ResumeRequest request = Resumption(Break(3, received));
  Attach(received, request);
  {
    MutexLock lock(mutex_);
    asked_.clear();
  }
  RunAll(second_, request);
  EXPECT_OK(end_);
  MutexLock lock(mutex_);
  ASSERT_EQ(asked_.size(), 2u);
  for (const v1::WorkerGenerateRequest& asked : asked_)
    EXPECT_EQ(asked.emitted_ids_size(), 3);
}

TEST_F(ResumeTest, AnAnswerThatIsWholeJustEnds) {
  v1::GenerateRequest request = RequestOf("me");
  request.mutable_stopping()->set_max_tokens(2);
  const auto stream = second_.Generate(request);
  Received whole;
  whole.Add(stream->ReadAll());
  v1::ResumeRequest again;
  *again.mutable_generate() = request;
  again.set_token(whole.accepted.resume_token());
  for (const int32_t id : {'h', 'i'}) {
    if (again.emitted_size() == 0) again.add_emitted();
    again.mutable_emitted(0)->add_ids(id);
  }
  {
    MutexLock lock(mutex_);
    asked_.clear();
  }
  Received rest = RunAll(second_, again);
  EXPECT_OK(end_);
  EXPECT_THAT(rest.choices[0].finished, HasSubstr("LENGTH"));
  EXPECT_THAT(rest.choices[0].ids, IsEmpty());
  EXPECT_EQ(rest.summary.completion_tokens(), 2);
  MutexLock lock(mutex_);
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(ResumeTest, UnlikeNumericsAreSaid) {
  Received received;
  const v1::ResumeRequest request = Resumption(Break(2, received));
  v1::WorkerStatus other = ReadyStatus(0, 1, 9);
  other.set_numerics_id("others");
  GatewayRig third(other);
  Script(third, 1000);
  const Received rest = RunAll(third, request);
  EXPECT_OK(end_);
  ASSERT_EQ(rest.notices.size(), 1u);
  EXPECT_EQ(rest.notices[0].kind(), v1::Notice::DEGRADED);
}

TEST_F(ResumeTest, ThePromptIsSentOnce) {
  request_.mutable_output()->set_echo(true);
  Received received;
  const v1::ResumeRequest request = Resumption(Break(2, received));
  EXPECT_NE(received.prompt, "");
  EXPECT_EQ(RunAll(second_, request).prompt, "");
  v1::ResumeRequest from_start = request;
  from_start.set_token(received.accepted.resume_token());
  EXPECT_EQ(RunAll(second_, from_start).prompt, received.prompt);
}

TEST_F(ResumeTest, RefusesATokenThatIsNone) {
  RunAll(second_, Resumption("nonsense"));
  EXPECT_EQ(end_.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(end_).word, "BAD_RESUME_TOKEN");
}

TEST_F(ResumeTest, RefusesATokenOfAnotherRequest) {
  Received received;
  v1::ResumeRequest request = Resumption(Break(2, received));
  request.mutable_chat()->mutable_messages(0)->set_content("ho");
  RunAll(second_, request);
  EXPECT_THAT(end_, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("another request")));
  EXPECT_EQ(ReasonOf(end_).word, "BAD_RESUME_TOKEN");
}

TEST_F(ResumeTest, AnotherRequestIdIsTheClientsRight) {
  Received received;
  v1::ResumeRequest request = Resumption(Break(2, received));
  request.mutable_chat()->set_request_id("another");
  RunAll(second_, request);
  EXPECT_OK(end_);
}

TEST_F(ResumeTest, RefusesIdsThatWereNotSent) {
  Received received;
  v1::ResumeRequest request = Resumption(Break(2, received));
  Attach(received, request);
  request.mutable_emitted(1)->set_ids(0, 'z');
  RunAll(second_, request);
  EXPECT_THAT(end_,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("emitted[1] does not begin with the 2")));
  request.mutable_emitted(1)->clear_ids();
  RunAll(second_, request);
  EXPECT_THAT(end_, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("emitted[1] has 0 ids; must be 2")));
  request.mutable_emitted()->RemoveLast();
  RunAll(second_, request);
  EXPECT_THAT(end_, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("emitted has 1 lists; must be 0 or 2")));
}

TEST_F(ResumeTest, RefusesTextThatNoChoiceHas) {
  Received received;
  v1::ResumeRequest request = Resumption(Break(2, received));
  Attach(received, request);
  request.add_seen_text();
  RunAll(second_, request);
  EXPECT_THAT(end_,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("seen_text has 1 entries; must be 0 or as "
                                 "many as emitted, 2")));
  request.add_seen_text()->set_reasoning_bytes(-1);
  RunAll(second_, request);
  EXPECT_THAT(end_, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("seen_text[1] holds -1; must be at "
                                       "least 0")));
}

TEST_F(ResumeTest, RefusesIdsThatNoTokenHas) {
  Received received;
  v1::ResumeRequest request = Resumption(Break(2, received));
  Attach(received, request);
  request.mutable_emitted(0)->add_ids(300);
  RunAll(second_, request);
  EXPECT_THAT(end_, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("holds 300; must be 0..299")));
}

TEST_F(ResumeTest, NeedsTheOriginal) {
  Received received;
  v1::ResumeRequest request = Resumption(Break(2, received));
  request.clear_chat();
  RunAll(second_, request);
  EXPECT_THAT(end_, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("original is not set")));
}

}  // namespace
}  // namespace phalanx
