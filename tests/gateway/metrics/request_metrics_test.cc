// A stream's tally and the series that it ends in, together: what a tally tells
// is only worth what is counted of it.

#include "gateway/metrics/request_metrics.h"

#include <gtest/gtest.h>

#include "common/reason.h"
#include "gateway/api/stream_tally.h"
#include "tests/support/metric_text.h"

namespace phalanx {
namespace {

constexpr char kWaitingHigh[] =
    "phalanx_requests_waiting{group=\"0\",priority=\"high\"}";
constexpr char kRunning[] = "phalanx_requests_running{group=\"0\"}";

std::string OfModel(const std::string& name) {
  return name + "{model=\"mini\"}";
}
std::string Requests(const std::string& model, const std::string& outcome) {
  return "phalanx_requests_total{model=\"" + model + "\",outcome=\"" + outcome +
         "\"}";
}
std::string Discarded(const std::string& reason) {
  return "phalanx_discarded_tokens_total{model=\"mini\",reason=\"" + reason +
         "\"}";
}
std::string Prompt(const std::string& source) {
  return "phalanx_prompt_tokens_total{model=\"mini\",source=\"" + source +
         "\"}";
}
std::string Resumes(const std::string& result) {
  return "phalanx_stream_resumes_total{result=\"" + result + "\"}";
}

class RequestMetricsTest : public testing::Test {
 protected:
  StreamTally Stream(int priority = 0) {
    return StreamTally(
        metrics_, clock_,
        {.priority = priority, .arrived_seconds = clock_.now_seconds()},
        /*prompt_tokens=*/10);
  }
  // Ten tokens of the prompt, two of them cached, after half a second.
  StreamTally Admitted() {
    StreamTally stream = Stream();
    stream.Begin();
    clock_.Advance(.5);
    stream.Admitted(/*queue_seconds=*/.5, /*cached_tokens=*/2);
    return stream;
  }
  double Value(const std::string& series) {
    return SeriesValue(registry_.Text(), series);
  }

  ManualClock clock_;
  MetricRegistry registry_;
  WorkerCalls calls_{registry_};
  RequestMetrics metrics_{"mini", {"0", "1"}, calls_, registry_};
};

TEST_F(RequestMetricsTest, ClosedSetsAreThereAtZero) {
  const std::string text = registry_.Text();

  for (const char* outcome : kOutcomeNames) {
    EXPECT_EQ(SeriesValue(text, Requests("mini", outcome)), 0) << outcome;
    EXPECT_EQ(SeriesValue(text, Requests("other", outcome)), 0) << outcome;
  }
  for (const char* reason : kRejectionNames)
    EXPECT_EQ(SeriesValue(text, std::string("phalanx_request_rejections_total"
                                            "{reason=\"") +
                                    reason + "\"}"),
              0)
        << reason;
  for (const char* result : {"resumed", "exhausted", "refused"})
    EXPECT_EQ(SeriesValue(text, Resumes(result)), 0) << result;
  for (const char* reason : {"preempted", "slow_reader", "speculation"})
    EXPECT_EQ(SeriesValue(text, Discarded(reason)), 0) << reason;
}

TEST_F(RequestMetricsTest, AStreamWaitsThenRunsThenIsGone) {
  StreamTally stream = Stream(/*priority=*/4);

  stream.Begin();
  EXPECT_EQ(Value(kWaitingHigh), 1);
  EXPECT_EQ(Value(kRunning), 0);
  stream.Admitted(0, 0);
  EXPECT_EQ(Value(kWaitingHigh), 0);
  EXPECT_EQ(Value(kRunning), 1);
  stream.End(RequestOutcome::kStop, absl::OkStatus());
  EXPECT_EQ(Value(kRunning), 0);
}

TEST_F(RequestMetricsTest, AStreamCountsInItsOwnGroup) {
  const QueuedRequest second = {
      .priority = 4, .arrived_seconds = 0, .group = 1};

  metrics_.OnWaiting(second);
  metrics_.OnAdmitted(second, 0, 1, 0);

  EXPECT_EQ(Value(kRunning), 0);
  EXPECT_EQ(Value("phalanx_requests_running{group=\"1\"}"), 1);
}

TEST_F(RequestMetricsTest, AStreamThatMovesCountsInItsNewGroup) {
  StreamTally stream = Admitted();
  stream.Moved(1);

  EXPECT_EQ(Value(kRunning), 0);
  EXPECT_EQ(Value("phalanx_requests_running{group=\"1\"}"), 1);
  stream.End(RequestOutcome::kStop, absl::OkStatus());
  EXPECT_EQ(Value("phalanx_requests_running{group=\"1\"}"), 0);
}

TEST_F(RequestMetricsTest, WhatIsComputedAgainForAClientIsDiscardedWork) {
  StreamTally stream = Admitted();
  stream.Tokens(5, 0);
  stream.Withheld(3);
  stream.Written(1);
  stream.Dropped();
  stream.End(RequestOutcome::kCancelled, absl::CancelledError("gone"));

  EXPECT_EQ(Value(Discarded("group_lost")), 3);
  EXPECT_EQ(Value(Discarded("cancelled")), 1);
}

TEST_F(RequestMetricsTest, AStreamThatEndsInTheQueueLeavesIt) {
  StreamTally stream = Stream(4);

  stream.Begin();
  stream.End(RequestOutcome::kCancelled, absl::CancelledError("gone"));

  EXPECT_EQ(Value(kWaitingHigh), 0);
  EXPECT_EQ(Value(kRunning), 0);
}

TEST_F(RequestMetricsTest, AdmissionCountsThePrompt) {
  Admitted();

  const std::string text = registry_.Text();

  EXPECT_EQ(SeriesValue(text, Prompt("prefix_cache")), 2);
  EXPECT_EQ(SeriesValue(text, Prompt("computed")), 8);
  EXPECT_EQ(SeriesValue(text, OfModel("phalanx_request_queue_seconds_sum")),
            .5);
}

TEST_F(RequestMetricsTest, AResumedStreamComputesWhatItsGroupLost) {
  Admitted();

  metrics_.OnReadmitted(/*tokens=*/16, /*cached_tokens=*/4);

  EXPECT_EQ(Value(Prompt("resumed")), 12);
  EXPECT_EQ(Value(Prompt("prefix_cache")), 2 + 4);
  EXPECT_EQ(Value(Prompt("computed")), 8);
  EXPECT_EQ(Value(Discarded("group_lost")), 12);
}

TEST_F(RequestMetricsTest, ResumesAreCountedByWhatCameOfThem) {
  metrics_.OnResume(ResumeResult::kResumed);
  metrics_.OnResume(ResumeResult::kResumed);
  metrics_.OnResume(ResumeResult::kExhausted);
  metrics_.OnResume(ResumeResult::kRefused);

  EXPECT_EQ(Value(Resumes("resumed")), 2);
  EXPECT_EQ(Value(Resumes("exhausted")), 1);
  EXPECT_EQ(Value(Resumes("refused")), 1);
}

TEST_F(RequestMetricsTest, APreemptionDiscardsWhatTheCachesHeld) {
  metrics_.OnPreempted(9);

  EXPECT_EQ(Value(Discarded("preempted")), 9);
}

TEST_F(RequestMetricsTest, WhatASlowReaderDidNotGetIsItsOwn) {
  StreamTally stream = Admitted();
  stream.Tokens(5, 0);
  stream.Written(2);
  stream.Dropped();
  const absl::Status slow = ReasonedError(absl::StatusCode::kResourceExhausted,
                                          "SLOW_READER", "asleep");

  stream.End(OutcomeOf(slow), slow);

  EXPECT_EQ(Value(Discarded("slow_reader")), 3);
  EXPECT_EQ(Value(Discarded("cancelled")), 0);
  EXPECT_EQ(Value(Requests("mini", "cancelled")), 1);
}

TEST_F(RequestMetricsTest, TheFirstTokenEndsThePrefill) {
  StreamTally stream = Admitted();
  clock_.Advance(.25);
  stream.Tokens(1, 0);
  clock_.Advance(1);
  stream.Tokens(2, 0);

  EXPECT_EQ(Value(OfModel("phalanx_request_prefill_seconds_sum")), .25);
  EXPECT_EQ(stream.first_token_seconds(), .75);
}

TEST_F(RequestMetricsTest, TimesAreThoseOfTheWrites) {
  StreamTally stream = Admitted();
  stream.Tokens(1, 0);
  clock_.Advance(.5);
  stream.Written(1);
  clock_.Advance(.125);
  stream.Written(1);

  EXPECT_EQ(Value(OfModel("phalanx_time_to_first_token_seconds_sum")), 1);
  EXPECT_EQ(Value(OfModel("phalanx_inter_token_latency_seconds_sum")), .125);
  EXPECT_EQ(Value(OfModel("phalanx_inter_token_latency_seconds_count")), 1);
}

TEST_F(RequestMetricsTest, TokensAreCountedByChannelAsTheyCome) {
  StreamTally stream = Admitted();
  stream.Tokens(3, 3);
  stream.Tokens(7, 4);

  EXPECT_EQ(Value("phalanx_generated_tokens_total{channel=\"reasoning\",model="
                  "\"mini\"}"),
            4);
  EXPECT_EQ(
      Value(
          "phalanx_generated_tokens_total{channel=\"content\",model=\"mini\"}"),
      3);
}

TEST_F(RequestMetricsTest, WhatAClientThatLeftDidNotGetIsDiscarded) {
  StreamTally stream = Admitted();
  stream.Tokens(5, 0);
  stream.Written(2);
  stream.Dropped();
  stream.End(RequestOutcome::kCancelled, absl::CancelledError("gone"));
  stream.Late(4);

  EXPECT_EQ(Value(Discarded("cancelled")), 7);
}

TEST_F(RequestMetricsTest, WhatComesAfterAStopIsNotDiscardedWork) {
  StreamTally stream = Admitted();
  stream.Tokens(5, 0);
  stream.End(RequestOutcome::kStopString, absl::OkStatus());
  stream.Late(4);

  for (const char* reason : {"cancelled", "deadline", "group_lost"})
    EXPECT_EQ(Value(Discarded(reason)), 0) << reason;
}

TEST_F(RequestMetricsTest, AnEndIsCountedOnceWithItsDuration) {
  StreamTally stream = Admitted();
  stream.Tokens(6, 0);
  clock_.Advance(2);
  stream.End(RequestOutcome::kLength, absl::OkStatus());

  const std::string text = registry_.Text();

  EXPECT_EQ(SeriesValue(text, Requests("mini", "length")), 1);
  EXPECT_EQ(SeriesValue(text,
                        "phalanx_request_duration_seconds_sum{model=\"mini\","
                        "outcome=\"length\"}"),
            2.5);
  EXPECT_EQ(SeriesValue(text, OfModel("phalanx_request_prompt_tokens_sum")),
            10);
  EXPECT_EQ(SeriesValue(text, OfModel("phalanx_request_generated_tokens_sum")),
            6);
}

TEST_F(RequestMetricsTest, ARejectionIsCountedByItsReason) {
  RequestEnd end;
  end.outcome = RequestOutcome::kRejected;
  end.status =
      ReasonedError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL", "full");

  metrics_.OnEnd(end);

  EXPECT_EQ(Value(Requests("mini", "rejected")), 1);
  EXPECT_EQ(Value("phalanx_request_rejections_total{reason=\"queue_full\"}"),
            1);
  EXPECT_EQ(Value(OfModel("phalanx_request_prompt_tokens_count")), 0);
}

TEST_F(RequestMetricsTest, AModelThatIsNotServedIsOther) {
  RequestEnd end;
  end.model_known = false;
  end.outcome = RequestOutcome::kRejected;
  end.status = ReasonedError(absl::StatusCode::kNotFound, "MODEL", "unknown");

  metrics_.OnEnd(end);

  EXPECT_EQ(Value(Requests("other", "rejected")), 1);
  EXPECT_EQ(Value(Requests("mini", "rejected")), 0);
}

TEST_F(RequestMetricsTest, AStallIsTheTimeThatReadingRested) {
  StreamTally stream = Admitted();
  stream.Paused();
  clock_.Advance(4);
  stream.Resumed();

  EXPECT_EQ(Value("phalanx_stream_stall_seconds_total"), 4);
}

TEST_F(RequestMetricsTest, TheMostThatWaitedIsShownAtTheEnd) {
  StreamTally stream = Admitted();
  stream.Buffered(100);
  stream.Buffered(200);
  stream.Buffered(-250);
  stream.Buffered(10);
  stream.End(RequestOutcome::kStop, absl::OkStatus());

  EXPECT_EQ(Value("phalanx_stream_buffered_bytes_sum"), 300);
}

TEST_F(RequestMetricsTest, CallsToWorkersAreTimedByTheirEnd) {
  StreamTally stream = Admitted();
  stream.WorkerEnded(absl::StatusCode::kUnavailable, /*seconds=*/1.5);
  metrics_.OnWorkerCall(absl::StatusCode::kDataLoss, 1);

  EXPECT_EQ(Value("phalanx_worker_rpc_duration_seconds_sum{code="
                  "\"UNAVAILABLE\",method=\"generate\"}"),
            1.5);
  EXPECT_EQ(Value("phalanx_worker_rpc_duration_seconds_count{code=\"other\","
                  "method=\"generate\"}"),
            1);
}

}  // namespace
}  // namespace phalanx
