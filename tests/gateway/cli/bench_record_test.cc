#include "gateway/cli/bench_record.h"

#include <numeric>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using End = BenchSample::End;

// Due at 10 s, first token after half a second, then every quarter.
BenchSample Good(int64_t tokens) {
  BenchSample sample;
  sample.due_seconds = 10;
  sample.first_token_seconds = 10.5;
  sample.last_token_seconds = 10.5 + 0.25 * static_cast<double>(tokens - 1);
  sample.end_seconds = sample.last_token_seconds + 0.125;
  sample.prompt_tokens = 7;
  sample.cached_tokens = 3;
  sample.output_tokens = tokens;
  sample.gaps_seconds.assign(static_cast<size_t>(tokens - 1), 0.25f);
  return sample;
}

BenchSample Ended(End end, const std::string& error = "") {
  BenchSample sample;
  sample.due_seconds = 9;
  sample.end_seconds = 20;
  sample.end = end;
  sample.error = error;
  sample.error_message = "of " + error;
  return sample;
}

BenchResult ResultOf(const std::vector<BenchSample>& samples,
                     const Slo& slo = {}) {
  BenchRecord record;
  for (const BenchSample& sample : samples) record.Add(sample);
  return record.Result(slo);
}

TEST(DistributionOf, TakesTheNearestRank) {
  std::vector<double> values(200);
  std::iota(values.rbegin(), values.rend(), 1);

  EXPECT_EQ(DistributionOf(values), (Distribution{.count = 200,
                                                  .mean = 100.5,
                                                  .p50 = 100,
                                                  .p90 = 180,
                                                  .p95 = 190,
                                                  .p99 = 198,
                                                  .max = 200}));
}

TEST(DistributionOf, OfFewValuesTakesTheOneAbove) {
  // 50 % of three are one and a half of them: two.
  EXPECT_EQ(DistributionOf({3, 1, 8}), (Distribution{.count = 3,
                                                     .mean = 4,
                                                     .p50 = 3,
                                                     .p90 = 8,
                                                     .p95 = 8,
                                                     .p99 = 8,
                                                     .max = 8}));
  EXPECT_EQ(DistributionOf({5}).p50, 5);
}

TEST(DistributionOf, OfNothingIsZero) {
  EXPECT_EQ(DistributionOf({}), Distribution());
}

TEST(BenchRecord, MeasuresFromWhenARequestWasDue) {
  const BenchResult result = ResultOf({Good(5)});

  EXPECT_EQ(result.ttft_seconds.p50, 0.5);
  EXPECT_EQ(result.end_to_end_seconds.p50, 1.625);
  EXPECT_EQ(result.seconds, 1.625);
}

TEST(BenchRecord, MeasuresTimesBetweenTokens) {
  BenchSample uneven = Good(3);
  uneven.gaps_seconds = {0.5f, 0};

  const BenchResult result = ResultOf({uneven});

  EXPECT_EQ(result.inter_token_seconds.count, 2);
  EXPECT_EQ(result.inter_token_seconds.mean, 0.25);
  EXPECT_EQ(result.inter_token_seconds.max, 0.5);
  EXPECT_EQ(result.time_per_output_token_seconds.p50, 0.25);
}

TEST(BenchRecord, AsksNoTimeBetweenTokensOfASingleOne) {
  const BenchResult result = ResultOf({Good(1)});

  EXPECT_EQ(result.ttft_seconds.count, 1);
  EXPECT_EQ(result.inter_token_seconds.count, 0);
  EXPECT_EQ(result.time_per_output_token_seconds.count, 0);
}

TEST(BenchRecord, AddsTokensUpWhateverTheEnd) {
  BenchSample cut = Good(4);
  cut.end = End::kInterrupted;

  const BenchResult result = ResultOf({Good(5), cut});

  EXPECT_EQ(result.output_tokens, 9);
  EXPECT_EQ(result.prompt_tokens, 14);
  EXPECT_EQ(result.cached_tokens, 6);
}

TEST(BenchRecord, CountsEndsAndErrors) {
  const BenchResult result =
      ResultOf({Good(2), Ended(End::kFailed, "A/B"), Ended(End::kFailed, "A/B"),
                Ended(End::kFailed, "C"), Ended(End::kInterrupted),
                Ended(End::kCancelled)});

  EXPECT_EQ(result.ok, 1);
  EXPECT_EQ(result.failed, 3);
  EXPECT_EQ(result.interrupted, 1);
  EXPECT_EQ(result.cancelled, 1);
  EXPECT_EQ(result.errors,
            (std::map<std::string, int64_t>{{"A/B", 2}, {"C", 1}}));
  EXPECT_EQ(result.messages.at("C"), "of C");
  EXPECT_EQ(result.seconds, 11);
  EXPECT_EQ(result.ttft_seconds.count, 1);
}

TEST(BenchRecord, CountsAsGoodWhatKeepsBothBounds) {
  BenchSample late = Good(5);
  late.due_seconds -= 1;
  BenchSample slow = Good(5);
  slow.last_token_seconds += 1;
  const std::vector<BenchSample> samples = {Good(5), late, slow,
                                            Ended(End::kFailed, "A")};

  EXPECT_EQ(ResultOf(samples).good, 3);
  EXPECT_EQ(ResultOf(samples, {.ttft_seconds = 0.5, .itl_seconds = {}}).good,
            2);
  EXPECT_EQ(ResultOf(samples, {.ttft_seconds = {}, .itl_seconds = 0.25}).good,
            2);
  EXPECT_EQ(ResultOf(samples, {.ttft_seconds = 0.5, .itl_seconds = 0.25}).good,
            1);
}

TEST(BenchRecord, OfNothingIsZero) {
  const BenchResult result = ResultOf({});

  EXPECT_EQ(result.seconds, 0);
  EXPECT_EQ(result.PerSecond(5), 0);
}

}  // namespace
}  // namespace phalanx
