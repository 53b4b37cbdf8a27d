#include "gateway/cli/bench_report.h"

#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr int kWide = 120;

BenchReport Report() {
  BenchReport report;
  report.address = "host:1";
  report.model.set_name("mini");
  report.model.set_tp_size(2);
  report.load.concurrency = 8;
  report.load.requests = 20;
  BenchResult& r = report.result;
  r.ok = 15;
  r.failed = 5;
  r.errors = {{"UNAVAILABLE/GROUP_LOST", 5}};
  r.messages = {{"UNAVAILABLE/GROUP_LOST", "group 0 was lost"}};
  r.seconds = 10;
  r.prompt_tokens = 400;
  r.cached_tokens = 40;
  r.output_tokens = 3000;
  r.good = 10;
  r.ttft_seconds = {.count = 15,
                    .mean = 0.02,
                    .p50 = 0.015,
                    .p90 = 0.03,
                    .p95 = 0.04,
                    .p99 = 0.05,
                    .max = 1234.5};
  return report;
}

TEST(BenchText, TellsWhatWasDoneAndWhatCameOfIt) {
  EXPECT_EQ(
      BenchText(Report()),
      "mini at host:1, TP 2\n"
      "closed loop of 8, 20 requests\n"
      "seed 0, prompts drawn, outputs drawn\n"
      "\n"
      "requests  15 ok, 5 failed in 10.00 s; 1.50 requests/s\n"
      "tokens    400 in (40 cached), 3000 out; 300.0 out/s\n"
      "error     5 x UNAVAILABLE/GROUP_LOST: group 0 was lost\n"
      "\n"
      "milliseconds              mean       p50       p90       p95       "
      "p99       max\n"
      "time to first token      20.00     15.00     30.00     40.00     "
      "50.00 1234500.00\n"
      "inter-token          -\n"
      "per output token     -\n"
      "end to end           -\n");
}

TEST(BenchText, TellsAnOpenLoopAndItsBounds) {
  BenchReport report = Report();
  report.load = {.rate = 2.5,
                 .concurrency = 100,
                 .requests = std::numeric_limits<int64_t>::max(),
                 .duration_seconds = 60};
  report.workload.prompt_tokens = 9;
  report.workload.shared_prefix_tokens = 2000;
  report.workload.text = true;
  report.warmup_requests = 4;

  EXPECT_THAT(
      BenchText(report),
      HasSubstr("open loop of 2.5 requests/s, at most 100 at once, 60 s\n"
                "seed 0, prompts 9, outputs drawn, as words, shared prefix "
                "2000, after 4 to warm up\n"));
}

TEST(BenchText, TellsGoodputWhereThereIsAnSlo) {
  BenchReport report = Report();
  EXPECT_THAT(BenchText(report), Not(HasSubstr("goodput")));
  report.slo = {.ttft_seconds = 0.5, .itl_seconds = 0.05};

  EXPECT_THAT(BenchText(report),
              HasSubstr("goodput   10 of 20 (50.0 %), 1.00 requests/s: first "
                        "token in 500 ms, a token every 50 ms\n"));
}

TEST(BenchText, TellsThatItEndedEarly) {
  BenchReport report = Report();
  report.interrupted = true;
  report.result.interrupted = 8;

  EXPECT_THAT(BenchText(report), HasSubstr("Ended early"));
  EXPECT_THAT(BenchText(report), HasSubstr("5 failed, 8 cut off in"));
}

TEST(BenchText, TellsWhatWasMeantToBeCancelled) {
  BenchReport report = Report();
  report.result.cancelled = 2;

  EXPECT_THAT(BenchText(report), HasSubstr("5 failed, 2 cancelled in"));
}

TEST(BenchText, TellsReplays) {
  BenchReport report = Report();
  report.result.resumes = 2;
  report.result.preemptions = 3;

  EXPECT_THAT(BenchText(report),
              HasSubstr("replays   2 after a lost group, 3 pre-empted\n"));
}

TEST(BenchJson, IsOneObjectWithEverything) {
  BenchReport report = Report();
  report.slo.ttft_seconds = 0.5;
  const std::string text = BenchJson(report);
  const json object = json::parse(text);

  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_EQ(object["model"], "mini");
  EXPECT_EQ(object["tp_size"], 2);
  EXPECT_EQ(object["interrupted"], false);
  EXPECT_EQ(object["load"],
            json::parse(R"({"loop":"closed","rate":null,"concurrency":8,
                "requests":20,"duration_seconds":null,"warmup_requests":0})"));
  EXPECT_EQ(object["workload"]["prompt_tokens"], nullptr);
  EXPECT_EQ(object["workload"]["ignore_eos"], true);
  EXPECT_EQ(object["requests"],
            json::parse(R"({"ok":15,"failed":5,"cancelled":0,
                "interrupted":0})"));
  EXPECT_EQ(object["errors"], json::parse(R"({"UNAVAILABLE/GROUP_LOST":5})"));
  EXPECT_EQ(object["requests_per_second"], 1.5);
  EXPECT_EQ(object["output_tokens_per_second"], 300);
  EXPECT_EQ(object["tokens"],
            json::parse(R"({"prompt":400,"cached":40,"output":3000})"));
  EXPECT_EQ(object["ttft_ms"]["p90"], 30);
  EXPECT_EQ(object["inter_token_ms"]["count"], 0);
  EXPECT_EQ(object["goodput"],
            json::parse(R"({"slo_ttft_ms":500.0,"slo_itl_ms":null,
                "requests":10,"share":0.5,"requests_per_second":1.0})"));
}

TEST(BenchJson, HasNoGoodputWithoutAnSlo) {
  EXPECT_EQ(json::parse(BenchJson(Report()))["goodput"], nullptr);
}

TEST(BenchProgressText, TellsHowFarItIs) {
  BenchLoad load;
  load.requests = 40;

  EXPECT_EQ(BenchProgressText({.seconds = 2,
                               .started = 14,
                               .running = 4,
                               .ended = 10,
                               .failed = 1,
                               .tokens = 3000},
                              load, kWide),
            "bench  25%  [######..................]  10 done, 4 running, 1 "
            "failed  1500 tokens/s");
}

TEST(BenchProgressText, GoesByTheClockWhereThatBounds) {
  BenchLoad load;
  load.duration_seconds = 20;
  BenchProgress progress;
  progress.seconds = 10;

  EXPECT_THAT(BenchProgressText(progress, load, kWide), HasSubstr("50%"));
}

TEST(BenchProgressText, FitsTheTerminal) {
  const BenchProgress progress;

  EXPECT_EQ(BenchProgressText(progress, {}, 30).find('['), std::string::npos);
  EXPECT_EQ(BenchProgressText(progress, {}, 10), "bench   0%");
}

}  // namespace
}  // namespace phalanx
