#include "gateway/cli/bench_client.h"

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "common/reason.h"
#include "gateway/cli/client.h"
#include "tests/gateway/cli/fake_gateway.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

constexpr int64_t kTokens = 3;

// A client and a service that answers with kTokens tokens in two messages.
class BenchClientTest : public testing::Test {
 protected:
  BenchClientTest() : workload_(MakeWorkload()) {
    v1::Accepted& accepted = *gateway_.script.emplace_back().mutable_accepted();
    accepted.set_prompt_tokens(5);
    accepted.set_max_tokens(kTokens);
    gateway_.script.emplace_back().mutable_delta()->add_token_ids(1);
    v1::Delta& delta = *gateway_.script.emplace_back().mutable_delta();
    delta.add_token_ids(2);
    delta.add_token_ids(3);
    v1::Summary& summary = *gateway_.script.emplace_back().mutable_summary();
    summary.set_cached_tokens(2);
    stub_ = v1::Inference::NewStub(ChannelTo(gateway_.address));
  }

  static BenchWorkload MakeWorkload() {
    return *BenchWorkload::Create({.seed = 0,
                                   .prompt_tokens = 5,
                                   .output_tokens = kTokens,
                                   .shared_prefix_tokens = 0,
                                   .text = false,
                                   .max_model_len = 100,
                                   .vocab_size = 10});
  }

  BenchResult Run(const BenchLoad& load) {
    return client().Run(load, 0, 0, [](const BenchProgress&) {}).Result({});
  }

  BenchClient& client() {
    if (client_ == nullptr)
      client_ =
          std::make_unique<BenchClient>(*stub_, clock_, workload_, settings_);
    return *client_;
  }

  FakeGateway gateway_;
  const MonotonicClock clock_;
  const BenchWorkload workload_;
  BenchSettings settings_;
  std::unique_ptr<v1::Inference::Stub> stub_;
  std::unique_ptr<BenchClient> client_;
};

BenchLoad Closed(int64_t requests, int64_t concurrency) {
  BenchLoad load;
  load.requests = requests;
  load.concurrency = concurrency;
  return load;
}

TEST_F(BenchClientTest, SendsAsManyRequestsAsAskedFor) {
  const BenchResult result = Run(Closed(20, 4));

  EXPECT_EQ(result.ok, 20);
  EXPECT_EQ(result.failed, 0);
  EXPECT_EQ(result.output_tokens, 20 * kTokens);
  EXPECT_EQ(result.prompt_tokens, 20 * 5);
  EXPECT_EQ(result.cached_tokens, 20 * 2);
  EXPECT_EQ(result.inter_token_seconds.count, 20 * (kTokens - 1));
}

TEST_F(BenchClientTest, AsksWhatTheWorkloadSays) {
  settings_.temperature = 0.5;
  Run(Closed(1, 1));

  const BenchRequest request = workload_.Request(0);
  const v1::GenerateRequest& asked = gateway_.generated;
  EXPECT_EQ(std::vector<int32_t>(asked.token_ids().ids().begin(),
                                 asked.token_ids().ids().end()),
            request.prompt_ids);
  EXPECT_EQ(asked.stopping().max_tokens(), kTokens);
  EXPECT_TRUE(asked.stopping().ignore_eos());
  EXPECT_EQ(asked.sampling().seed(), request.sampling_seed);
  EXPECT_EQ(asked.sampling().temperature(), 0.5f);
}

TEST_F(BenchClientTest, CountsFromWhenAnOpenLoopsRequestWasDue) {
  // All are due at once, more or less, and go one by one.
  BenchLoad load = Closed(10, 1);
  load.rate = 1e6;
  const BenchResult result = Run(load);

  EXPECT_EQ(result.ok, 10);
  EXPECT_GT(result.end_to_end_seconds.max, 0.8 * result.seconds);
}

TEST_F(BenchClientTest, EndsAtItsDuration) {
  BenchLoad load;
  load.duration_seconds = 0.3;
  const BenchResult result = Run(load);

  EXPECT_GT(result.ok, 0);
  EXPECT_EQ(result.failed, 0);
}

TEST_F(BenchClientTest, TellsErrorsByCodeAndReason) {
  gateway_.end = ReasonedError(absl::StatusCode::kResourceExhausted,
                               "QUEUE_FULL", "64 requests wait");
  const BenchResult result = Run(Closed(3, 1));

  EXPECT_EQ(result.ok, 0);
  EXPECT_EQ(
      result.errors,
      (std::map<std::string, int64_t>{{"RESOURCE_EXHAUSTED/QUEUE_FULL", 3}}));
  EXPECT_EQ(result.messages.begin()->second, "64 requests wait");
}

TEST_F(BenchClientTest, AnEndWithFewerTokensIsAFailure) {
  gateway_.script[2].mutable_delta()->clear_token_ids();
  const BenchResult result = Run(Closed(1, 1));

  EXPECT_EQ(result.errors, (std::map<std::string, int64_t>{{"INCOMPLETE", 1}}));
}

TEST_F(BenchClientTest, AnEarlyEndIsFineWhereTheModelMayEnd) {
  settings_.ignore_eos = false;
  gateway_.script[2].mutable_delta()->clear_token_ids();

  EXPECT_EQ(Run(Closed(1, 1)).ok, 1);
}

TEST_F(BenchClientTest, AnEndWithoutASummaryIsAFailure) {
  gateway_.script.pop_back();

  EXPECT_EQ(Run(Closed(1, 1)).failed, 1);
}

TEST_F(BenchClientTest, StopCancelsWhatRunsAndIsNoFailure) {
  gateway_.holds = true;
  std::thread stopper;
  const BenchRecord record =
      client().Run(Closed(100, 2), 0, 0, [&](const BenchProgress& progress) {
        if (progress.running == 2 && !stopper.joinable())
          stopper = std::thread([&] { client().Stop(); });
      });
  stopper.join();
  const BenchResult result = record.Result({});

  EXPECT_EQ(result.interrupted, 2);
  EXPECT_EQ(result.ok + result.failed, 0);
  EXPECT_TRUE(client().stopped());
}

// A client that cancels every request.
class CancellingClientTest : public BenchClientTest {
 protected:
  BenchResult RunAndCancel(int64_t requests) {
    const BenchWorkload workload =
        *BenchWorkload::Create({.seed = 0,
                                .prompt_tokens = 5,
                                .output_tokens = kTokens,
                                .shared_prefix_tokens = 0,
                                .text = false,
                                .cancel_share = 1,
                                .max_model_len = 100,
                                .vocab_size = 10});
    BenchClient client(*stub_, clock_, workload, settings_);
    return client.Run(Closed(requests, 1), 0, 0, [](const BenchProgress&) {})
        .Result({});
  }
};

TEST_F(CancellingClientTest, CancelsByNameAndCountsThoseThatEndSo) {
  gateway_.end =
      ReasonedError(absl::StatusCode::kCancelled, "CLIENT", "by you");
  const BenchResult result = RunAndCancel(2);

  EXPECT_EQ(result.cancelled, 2);
  EXPECT_EQ(result.ok + result.failed, 0);
  ASSERT_EQ(gateway_.cancelled.size(), 2u);
  EXPECT_NE(gateway_.cancelled[0], gateway_.cancelled[1]);
  EXPECT_EQ(gateway_.cancelled[1], gateway_.generated.request_id());
}

TEST_F(CancellingClientTest, ARequestThatEndsBeforeItsCancelIsFine) {
  EXPECT_EQ(RunAndCancel(2).ok, 2);
}

TEST_F(CancellingClientTest, ACancelThatFailsIsAFailure) {
  gateway_.cancel_end = absl::InternalError("no");
  const BenchResult result = RunAndCancel(1);

  EXPECT_EQ(result.errors,
            (std::map<std::string, int64_t>{{"Cancel INTERNAL", 1}}));
}

TEST_F(CancellingClientTest, AnotherEndThanTheOneAskedForIsAFailure) {
  gateway_.end =
      ReasonedError(absl::StatusCode::kCancelled, "DISCONNECTED", "gone");

  EXPECT_EQ(RunAndCancel(1).errors,
            (std::map<std::string, int64_t>{{"CANCELLED/DISCONNECTED", 1}}));
}

TEST_F(BenchClientTest, ARequestThatTakesTooLongHasFailed) {
  settings_.timeout_seconds = 0.05;
  gateway_.holds = true;
  const BenchResult result = Run(Closed(1, 1));

  EXPECT_EQ(result.errors,
            (std::map<std::string, int64_t>{{"DEADLINE_EXCEEDED", 1}}));
}

}  // namespace
}  // namespace phalanx
