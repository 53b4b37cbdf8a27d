#include "gateway/api/inference_service.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
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

class InferenceServiceTest : public testing::Test {
 protected:
  // Streams these tokens one by one, then this finish.
  void Script(const std::vector<int32_t>& ids,
              const v1::WorkerGenerateEvent& finish) {
    rig_.worker().SetScript([=](grpc::ServerContext&,
                                const v1::WorkerGenerateRequest&,
                                FakeWorker::Writer& writer) {
      v1::WorkerGenerateEvent first;
      first.set_queue_seconds(0.25);
      first.set_cached_tokens(1);
      writer.Write(first);
      for (const int32_t id : ids) writer.Write(TokensEvent({id}));
      writer.Write(finish);
      return grpc::Status::OK;
    });
  }

  GatewayRig rig_{ReadyStatus(0, 1, 7)};
};

TEST_F(InferenceServiceTest, SendsAcceptedDeltasFinishedSummaryThenOk) {
  Script({'h', 'i', 261}, FinishedEvent(v1::WorkerFinished::STOP, 261));
  const auto stream = rig_.Generate("me");
  const std::vector<v1::GenerateEvent> events = stream->ReadAll();
  EXPECT_OK(stream->End());
  ASSERT_GE(events.size(), 4u);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].seq(), i + 1);
    EXPECT_EQ(events[i].request_id(), "me");
    const bool is_delta = i > 0 && i + 2 < events.size();
    EXPECT_EQ(events[i].has_delta(), is_delta);
  }
  EXPECT_TRUE(events.front().has_accepted());
  EXPECT_TRUE(events[events.size() - 2].has_finished());
  EXPECT_TRUE(events.back().has_summary());
  EXPECT_EQ(TextOf(events), "hi");
  EXPECT_THAT(IdsOf(events), ElementsAre('h', 'i', 261));
}

TEST_F(InferenceServiceTest, AcceptedNamesTheGroupAndTheEpoch) {
  Script({'h'}, FinishedEvent(v1::WorkerFinished::LENGTH));
  const auto events = rig_.Generate("me")->ReadAll();
  EXPECT_EQ(events[0].accepted().group(), "0");
  EXPECT_EQ(events[0].accepted().epoch(), 7u);
  EXPECT_EQ(events[0].accepted().prompt_tokens(), 1);
  EXPECT_EQ(events[0].accepted().max_tokens(), 99);
}

TEST_F(InferenceServiceTest, SummaryCountsTokensAndTimes) {
  Script({'h', 'i', 261}, FinishedEvent(v1::WorkerFinished::STOP, 261));
  const auto events = rig_.Generate("me")->ReadAll();
  const v1::Summary& summary = events.back().summary();
  EXPECT_EQ(summary.prompt_tokens(), 1);
  EXPECT_EQ(summary.cached_tokens(), 1);
  EXPECT_EQ(summary.completion_tokens(), 3);
  EXPECT_EQ(summary.queue_seconds(), 0.25);
  EXPECT_GT(summary.time_to_first_token_seconds(), 0);
  EXPECT_GE(summary.total_seconds(), summary.time_to_first_token_seconds());
}

TEST_F(InferenceServiceTest, FinishedSaysWhichStopIdItWas) {
  Script({261}, FinishedEvent(v1::WorkerFinished::STOP, 261));
  const auto events = rig_.Generate("me")->ReadAll();
  const v1::Finished& finished = events[events.size() - 2].finished();
  EXPECT_EQ(finished.reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(finished.matched_stop_id(), 261);
}

TEST_F(InferenceServiceTest, FinishedSaysThatTheLengthIsReached) {
  Script({'h'}, FinishedEvent(v1::WorkerFinished::LENGTH));
  const auto events = rig_.Generate("me")->ReadAll();
  EXPECT_EQ(events[events.size() - 2].finished().reason(),
            v1::FINISH_REASON_LENGTH);
}

TEST_F(InferenceServiceTest, NoticesThatMaxTokensWasCut) {
  Script({'h'}, FinishedEvent(v1::WorkerFinished::LENGTH));
  v1::GenerateRequest request = RequestOf("me");
  request.mutable_stopping()->set_max_tokens(100);
  const auto events = rig_.Generate(request)->ReadAll();
  EXPECT_EQ(events[0].accepted().max_tokens(), 99);
  EXPECT_EQ(events[1].notice().kind(), v1::Notice::TRUNCATED);
  EXPECT_THAT(events[1].notice().detail(), HasSubstr("99"));
}

TEST_F(InferenceServiceTest, AChatAnswersOnTwoChannels) {
  Script(BytesOf("mm</think>ok"), FinishedEvent(v1::WorkerFinished::LENGTH));
  v1::ChatRequest request;
  v1::ChatMessage& message = *request.add_messages();
  message.set_role("user");
  message.set_content("hi");
  ClientStream stream(rig_.stub(), request);
  std::string reasoning, content;
  for (const v1::GenerateEvent& event : stream.ReadAll())
    (event.delta().channel() == v1::CHANNEL_REASONING ? reasoning : content) +=
        event.delta().text();
  EXPECT_OK(stream.End());
  EXPECT_EQ(reasoning, "mm");
  EXPECT_EQ(content, "ok");
}

TEST_F(InferenceServiceTest, AnswersInvalidUtf8WithItsReason) {
  const absl::Status status =
      rig_.Generate(RequestOf(std::string("\xff\xfe")))->End();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status).word, "INVALID_UTF8");
}

TEST_F(InferenceServiceTest, RefusesAFieldThatIsNotServedByName) {
  v1::GenerateRequest request = RequestOf("me");
  request.set_regex("a*");
  const absl::Status status = rig_.Generate(request)->End();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReasonOf(status).metadata["feature"], "regex");
  EXPECT_EQ(rig_.admission().held(), 0);
}

TEST_F(InferenceServiceTest, GetModelSaysWhatIsServed) {
  grpc::ClientContext context;
  v1::GetModelResponse model;
  ASSERT_TRUE(
      rig_.stub().GetModel(&context, v1::GetModelRequest(), &model).ok());
  EXPECT_EQ(model.name(), "mini");
  EXPECT_EQ(model.vocab_size(), 300);
  EXPECT_EQ(model.max_model_len(), 100);
  EXPECT_TRUE(model.has_tokenizer());
  EXPECT_THAT(model.stop_ids(), ElementsAre(261));
  EXPECT_EQ(model.default_sampling().top_k(), 20);
}

TEST_F(InferenceServiceTest, RefusesEverythingOnceItDrains) {
  rig_.admission().Close();
  EXPECT_EQ(ReasonOf(rig_.Generate("me")->End()).word, "DRAINING");
}

TEST(InferenceServiceStarting, SaysHowFarTheGroupIs) {
  v1::WorkerStatus loading = ReadyStatus(0, 1, 0);
  loading.set_state(v1::RANK_STATE_LOADING);
  GatewayRig rig(loading);
  const absl::Status status = rig.Generate("me")->End();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status).word, "STARTING");
  EXPECT_EQ(ReasonOf(status).metadata["phase"], "loading");
  EXPECT_EQ(rig.admission().held(), 0);
}

TEST(InferenceServiceStarting, GetModelNeedsAWorkerThatAnswers) {
  GatewayRig rig(ReadyStatus(1, 2, 7));  // Not the rank that is listed.
  grpc::ClientContext context;
  v1::GetModelResponse model;
  EXPECT_TRUE(
      rig.stub().GetModel(&context, v1::GetModelRequest(), &model).ok());
  EXPECT_EQ(ReasonOf(rig.Generate("me")->End()).word, "STARTING");
}

}  // namespace
}  // namespace phalanx
