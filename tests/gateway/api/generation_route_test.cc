// Streams that lose their group: what comes is what would have come.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/grpc_status.h"
#include "common/reason.h"
#include "gateway/api/generation.h"
#include "tests/gateway/api/api_fixtures.h"
#include "tests/gateway/api/gateway_rig.h"
#include "tests/gateway/api/scripted_answer.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<int32_t> kAnswer =
    BytesOf("m\u00e9m</think>\n\no\u20ack STO STOP and more");

v1::ChatRequest ChatOf(const std::string& id) {
  v1::ChatRequest request;
  request.set_request_id(id);
  v1::ChatMessage& message = *request.add_messages();
  message.set_role("user");
  message.set_content("hi");
  request.mutable_stopping()->add_stop_strings("STOP");
  request.mutable_output()->set_logprobs(true);
  return request;
}

class GenerationRouteTest : public testing::Test {
 protected:
  // A worker's call: the `count`-th of its choice, from 0.
  using Call = std::function<grpc::Status(
      int count, const v1::WorkerGenerateRequest&, FakeWorker::Writer&)>;

  void Script(Call call) {
    {
      MutexLock lock(mutex_);
      requests_.clear();
    }
    rig_.worker().SetScript(
        [this, call = std::move(call)](grpc::ServerContext&,
                                       const v1::WorkerGenerateRequest& request,
                                       FakeWorker::Writer& writer) {
          int count = 0;
          {
            MutexLock lock(mutex_);
            for (const v1::WorkerGenerateRequest& earlier : requests_)
              if (earlier.choice_index() == request.choice_index()) ++count;
            requests_.push_back(request);
          }
          return call(count, request, writer);
        });
  }
  // The group is ready in its next epoch.
  void Reform() {
    rig_.worker().SetStatus(ReadyStatus(0, 1, epoch_.fetch_add(1) + 1));
  }
  // One that first loses its group behind `cut` tokens, then runs.
  void ScriptLossAt(const ScriptedAnswer& answer, size_t cut,
                    const grpc::Status& loss) {
    Script([this, &answer, cut, loss](int count, const auto& request,
                                      auto& writer) {
      if (count > 0) return answer.Run(request, writer);
      answer.Write(request, writer, cut);
      Reform();
      return loss;
    });
  }
  template <typename Request>
  Received Run(const Request& request) {
    ClientStream stream(rig_.stub(), request);
    Received received;
    const std::vector<v1::GenerateEvent> events = stream.ReadAll();
    for (size_t i = 0; i < events.size(); ++i)
      EXPECT_EQ(events[i].seq(), i + 1);
    received.Add(events);
    end_ = stream.End();
    return received;
  }
  std::vector<v1::WorkerGenerateRequest> requests() {
    MutexLock lock(mutex_);
    return requests_;
  }
  GatewayRig rig_{ReadyStatus(0, 1, 7)};
  std::atomic<uint64_t> epoch_{7};
  absl::Status end_;
  Mutex mutex_;
  std::vector<v1::WorkerGenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(GenerationRouteTest, AtEveryCutTheClientGetsWhatItWouldHaveGot) {
  const ScriptedAnswer answer({kAnswer});
  Script([&](int, const auto& request, auto& writer) {
    return answer.Run(request, writer);
  });
  const Received whole = Run(ChatOf("whole"));
  EXPECT_OK(end_);
  for (size_t cut = 0; cut < kAnswer.size(); ++cut) {
    ScriptLossAt(answer, cut, GroupLost(/*in_step=*/true));
    const Received received = Run(ChatOf("me"));
    EXPECT_OK(end_);
    EXPECT_EQ(received.choices, whole.choices) << "cut at " << cut;
    if (requests().size() < 2) continue;  // The stop string had ended it.
    EXPECT_EQ(requests()[1].emitted_ids_size(), static_cast<int>(cut));
    ASSERT_EQ(received.notices.size(), cut == 0 ? 0u : 1u);
    EXPECT_EQ(received.summary.resumes(), cut == 0 ? 0 : 1);
    if (cut == 0) continue;
    EXPECT_EQ(received.notices[0].kind(), v1::Notice::RESUMED);
    EXPECT_THAT(received.notices[0].detail(), HasSubstr("rank 1 is gone"));
  }
}

TEST_F(GenerationRouteTest, AProcessThatDiesLosesNothing) {
  const ScriptedAnswer answer({BytesOf("hello")});
  Event written;
  // The first worker's call goes on, without a token, until it is gone.
  Script([&](int count, const auto& request, auto& writer) {
    if (count > 0) return answer.Run(request, writer);
    answer.Write(request, writer, 3);
    written.Set();
    while (writer.Write(v1::WorkerGenerateEvent())) {
    }
    return grpc::Status::OK;
  });
  ClientStream stream(rig_.stub(), RequestOf("me"));
  written.Wait();
  rig_.Replace(ReadyStatus(0, 1, 8));
  EXPECT_EQ(TextOf(stream.ReadAll()), "hello");
  EXPECT_OK(stream.End());
}

TEST_F(GenerationRouteTest, ChoicesLoseTheirGroupTogether) {
  const ScriptedAnswer answer(
      {BytesOf("first"), BytesOf("second"), BytesOf("third one")});
  v1::GenerateRequest request = RequestOf("me");
  request.set_n(3);
  ScriptLossAt(answer, 4, GroupLost(/*in_step=*/true));
  Received received = Run(request);
  EXPECT_OK(end_);
  ASSERT_EQ(received.choices.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(received.choices[i].ids, answer.ids(i));
    EXPECT_EQ(received.choices[i].text[v1::CHANNEL_CONTENT],
              std::string(answer.ids(i).begin(), answer.ids(i).end()));
  }
  EXPECT_EQ(received.notices.size(), 1u);
  EXPECT_EQ(received.summary.completion_tokens(), 5 + 6 + 9);
}

TEST_F(GenerationRouteTest, ARefusalOfAnOldEpochIsRetriedUnseen) {
  const ScriptedAnswer answer({BytesOf("hi")});
  ScriptLossAt(answer, 0,
               ToGrpc(ReasonedError(absl::StatusCode::kFailedPrecondition,
                                    "STALE_EPOCH", "epoch is 7; it is 8")));
  const Received received = Run(RequestOf("me"));
  EXPECT_OK(end_);
  EXPECT_THAT(received.notices, IsEmpty());
  EXPECT_FALSE(requests()[1].suspect());
  EXPECT_NE(requests()[0].request_id(), requests()[1].request_id());
}

TEST_F(GenerationRouteTest, AGroupThatDrainsHandsItsStreamsOver) {
  const ScriptedAnswer answer({BytesOf("hello")});
  ScriptLossAt(answer, 2,
               ToGrpc(ReasonedError(absl::StatusCode::kUnavailable, "DRAINING",
                                    "going away")));
  const Received received = Run(RequestOf("me"));
  EXPECT_OK(end_);
  EXPECT_EQ(received.notices.size(), 1u);
  EXPECT_FALSE(requests()[1].suspect());
}

TEST_F(GenerationRouteTest, AFullQueueDoesNotEndAStreamThatIsResumed) {
  const ScriptedAnswer answer({BytesOf("hello")});
  Script([&](int count, const auto& request, auto& writer) {
    if (count == 2) return answer.Run(request, writer);
    if (count == 0) answer.Write(request, writer, 2);
    Reform();
    return count == 0
               ? GroupLost(/*in_step=*/false)
               : ToGrpc(ReasonedError(absl::StatusCode::kResourceExhausted,
                                      "QUEUE_FULL", "3 active; at most 3"));
  });
  const Received received = Run(RequestOf("me"));
  EXPECT_OK(end_);
  EXPECT_EQ(received.choices.at(0).ids, answer.ids());
  EXPECT_EQ(received.notices.size(), 1u);
}

TEST_F(GenerationRouteTest, OnlyALossInTheStepMakesASuspect) {
  const ScriptedAnswer answer({BytesOf("hello")});
  for (const bool in_step : {false, true}) {
    ScriptLossAt(answer, 2, GroupLost(in_step));
    Run(RequestOf("me"));
    EXPECT_OK(end_);
    EXPECT_EQ(requests()[1].suspect(), in_step);
  }
}

TEST_F(GenerationRouteTest, ASuspectThatGotATokenIsOrdinaryAgain) {
  const ScriptedAnswer answer({BytesOf("hello")});
  Script([&](int count, const auto& request, auto& writer) {
    if (count == 2) return answer.Run(request, writer);
    answer.Write(request, writer, count == 0 ? 2 : 3);
    Reform();
    return GroupLost(/*in_step=*/count == 0);
  });
  Run(RequestOf("me"));
  EXPECT_OK(end_);
  ASSERT_EQ(requests().size(), 3u);
  EXPECT_TRUE(requests()[1].suspect());
  EXPECT_FALSE(requests()[2].suspect());
}

TEST_F(GenerationRouteTest, APoisonousRequestEndsAtItsTrial) {
  Script([&](int count, const auto&, auto& writer) {
    if (count > 0) {
      v1::WorkerGenerateEvent trial;
      trial.set_on_trial(true);
      writer.Write(trial);
    }
    Reform();
    return GroupLost(/*in_step=*/true);
  });
  Run(RequestOf("me"));
  EXPECT_EQ(end_.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReasonOf(end_).word, "POISON");
  EXPECT_EQ(requests().size(), 2u);
}

TEST_F(GenerationRouteTest, ThoseWhoWaitForTheirTrialSpendNothing) {
  const ScriptedAnswer answer({BytesOf("hello")});
  // More losses than a stream may have, all but one before its own trial.
  Script([&](int count, const auto& request, auto& writer) {
    if (count == 8) return answer.Run(request, writer);
    Reform();
    return GroupLost(/*in_step=*/true);
  });
  const Received received = Run(RequestOf("me"));
  EXPECT_OK(end_);
  EXPECT_EQ(received.choices.at(0).ids, answer.ids());
}

TEST_F(GenerationRouteTest, ATryTooManyIsALostGroupWithAToken) {
  Script([&](int count, const auto& request, auto& writer) {
    const ScriptedAnswer answer({BytesOf("abcdefgh")});
    answer.Write(request, writer, count + 1);  // So each is out of suspicion.
    Reform();
    return GroupLost(/*in_step=*/true);
  });
  const Received received = Run(RequestOf("me"));
  EXPECT_EQ(end_.code(), absl::StatusCode::kUnavailable);
  Reason reason = ReasonOf(end_);
  EXPECT_EQ(reason.word, "GROUP_LOST");
  EXPECT_EQ(reason.metadata["epoch"], "10");
  EXPECT_EQ(reason.metadata["rank"], "1");
  EXPECT_EQ(reason.metadata["cause"], "its socket closed");
  EXPECT_EQ(reason.metadata.count("in_step"), 0u);
  EXPECT_EQ(requests().size(), 4u);  // And three resumes.
  EXPECT_EQ(received.notices.size(), 3u);
  const auto point =
      ResumeKey::Of(std::string(32, 'k')).Open(reason.metadata["resume_token"]);
  ASSERT_OK(point);
  ASSERT_EQ(point->choices.size(), 1u);
  EXPECT_EQ(point->choices[0].tokens, 4);
  EXPECT_EQ(point->choices[0].text_bytes[0], 4);
}

TEST(GenerationRouteWait, WithoutAGroupItWaitsAWhileAndEnds) {
  GatewayRig rig(ReadyStatus(0, 1, 7), /*max_requests=*/64,
                 RigLimits(/*wait_seconds=*/0.1));
  std::atomic<int> calls{0};
  rig.worker().SetScript([&](grpc::ServerContext&,
                             const v1::WorkerGenerateRequest&,
                             FakeWorker::Writer&) {
    calls.fetch_add(1);
    return GroupLost(/*in_step=*/true);
  });
  const auto stream = rig.Generate("me");
  stream->ReadAll();
  EXPECT_EQ(ReasonOf(stream->End()).word, "GROUP_LOST");
  EXPECT_EQ(calls.load(), 1);
}

TEST_F(GenerationRouteTest, ACancelReachesAStreamThatWaitsForAGroup) {
  const ScriptedAnswer answer({BytesOf("hello")});
  Script([&](int, const auto& request, auto& writer) {
    answer.Write(request, writer, 2);
    return GroupLost(/*in_step=*/true);
  });
  ClientStream stream(rig_.stub(), RequestOf("me"));
  v1::GenerateEvent event;
  std::string text;
  while (text.size() < 2 && stream.Read(event)) text += event.delta().text();
  v1::CancelRequest request;
  request.set_all(true);
  EXPECT_EQ(rig_.Cancel(request).cancelled(), 1);
  stream.ReadAll();
  EXPECT_EQ(ReasonOf(stream.End()).word, "CLIENT");
  EXPECT_EQ(rig_.admission().held(), 0);
}

TEST_F(GenerationRouteTest, ItsTimeRunsOutWhileItWaitsForAGroup) {
  const ScriptedAnswer answer({BytesOf("hello")});
  Script([&](int, const auto& request, auto& writer) {
    answer.Write(request, writer, 2);
    v1::WorkerStatus forming = ReadyStatus(0, 1, 7);
    forming.set_state(v1::RANK_STATE_FORMING);
    rig_.worker().SetStatus(forming);
    return GroupLost(/*in_step=*/true);
  });
  v1::GenerateRequest request = RequestOf("me");
  request.mutable_stopping()->set_max_time_ms(1);
  const Received received = Run(request);
  EXPECT_OK(end_);
  EXPECT_THAT(received.choices.at(0).finished, HasSubstr("TIME_LIMIT"));
  EXPECT_THAT(received.choices.at(0).ids, ElementsAre('h', 'e'));
}

TEST_F(GenerationRouteTest, GoesOnUnderOtherNumericsAndSaysSo) {
  const ScriptedAnswer answer({BytesOf("hello")});
  Script([&](int count, const auto& request, auto& writer) {
    if (count > 0) return answer.Run(request, writer);
    answer.Write(request, writer, 2);
    v1::WorkerStatus other = ReadyStatus(0, 1, 8);
    other.set_numerics_id("others");
    rig_.worker().SetStatus(other);
    return GroupLost(/*in_step=*/true);
  });
  const Received received = Run(RequestOf("me"));
  EXPECT_OK(end_);
  ASSERT_EQ(received.notices.size(), 1u);
  EXPECT_EQ(received.notices[0].kind(), v1::Notice::DEGRADED);
  EXPECT_THAT(received.notices[0].detail(),
              HasSubstr("numerics id numerics; others goes on"));
}

TEST_F(GenerationRouteTest, TheWorkerHearsWhatIsLeftOfTheTimes) {
  const ScriptedAnswer answer({BytesOf("hello")});
  ScriptLossAt(answer, 2, GroupLost(/*in_step=*/false));
  v1::GenerateRequest request = RequestOf("me");
  request.mutable_stopping()->set_max_time_ms(60'000);
  ClientStream stream(rig_.stub(), request, std::chrono::seconds(100));
  stream.ReadAll();
  EXPECT_OK(stream.End());
  ASSERT_EQ(requests().size(), 2u);
  EXPECT_LE(requests()[0].max_time_ms(), 60'000);
  EXPECT_GT(requests()[1].max_time_ms(), 0);
  EXPECT_LE(requests()[1].max_time_ms(), requests()[0].max_time_ms());
  EXPECT_LE(requests()[0].timeout_ms(), 101'000);
  EXPECT_GT(requests()[1].timeout_ms(), 0);
  EXPECT_LE(requests()[1].timeout_ms(), requests()[0].timeout_ms());
}

TEST_F(GenerationRouteTest, AnAnswerThatIsWholeNeedsNoGroup) {
  const ScriptedAnswer answer({{'h', 'i', 261}});
  Script([&](int, const auto& request, auto& writer) {
    answer.Write(request, writer, 3);  // But for its end.
    Reform();
    return GroupLost(/*in_step=*/true);
  });
  const Received received = Run(RequestOf("me"));
  EXPECT_OK(end_);
  EXPECT_EQ(requests().size(), 1u);
  EXPECT_THAT(received.choices.at(0).finished, HasSubstr("STOP"));
  EXPECT_THAT(received.notices, IsEmpty());
}

}  // namespace
}  // namespace phalanx
