#include "gateway/cli/bench_record.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace phalanx {
namespace {

// Of ascending values, at least one.
double Percentile(const std::vector<double>& values, double per_cent) {
  const double rank =
      std::ceil(per_cent * static_cast<double>(values.size()) / 100);
  return values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

double Ttft(const BenchSample& sample) {
  return sample.first_token_seconds - sample.due_seconds;
}

// Mean time between the tokens of one request; 0 of a single one.
double TimePerOutputToken(const BenchSample& sample) {
  if (sample.output_tokens < 2) return 0;
  return (sample.last_token_seconds - sample.first_token_seconds) /
         static_cast<double>(sample.output_tokens - 1);
}

bool IsGood(const BenchSample& sample, const Slo& slo) {
  return sample.end == BenchSample::End::kOk &&
         Ttft(sample) <= slo.ttft_seconds.value_or(INFINITY) &&
         TimePerOutputToken(sample) <= slo.itl_seconds.value_or(INFINITY);
}

}  // namespace

Distribution DistributionOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {.count = std::ssize(values),
          .mean = std::accumulate(values.begin(), values.end(), 0.0) /
                  static_cast<double>(values.size()),
          .p50 = Percentile(values, 50),
          .p90 = Percentile(values, 90),
          .p95 = Percentile(values, 95),
          .p99 = Percentile(values, 99),
          .max = values.back()};
}

void BenchRecord::Add(BenchSample sample) {
  samples_.push_back(std::move(sample));
}

BenchResult BenchRecord::Result(const Slo& slo) const {
  BenchResult result;
  double first_due = INFINITY;
  double last_end = -INFINITY;
  std::vector<double> ttft, gaps, per_token, total;
  for (const BenchSample& sample : samples_) {
    first_due = std::min(first_due, sample.due_seconds);
    last_end = std::max(last_end, sample.end_seconds);
    result.prompt_tokens += sample.prompt_tokens;
    result.cached_tokens += sample.cached_tokens;
    result.output_tokens += sample.output_tokens;
    result.resumes += sample.resumes;
    result.preemptions += sample.preemptions;
    if (IsGood(sample, slo)) ++result.good;
    if (sample.end == BenchSample::End::kCancelled) ++result.cancelled;
    if (sample.end == BenchSample::End::kInterrupted) ++result.interrupted;
    if (sample.end == BenchSample::End::kFailed) {
      ++result.failed;
      ++result.errors[sample.error];
      result.messages.try_emplace(sample.error, sample.error_message);
    }
    if (sample.end != BenchSample::End::kOk) continue;
    ++result.ok;
    total.push_back(sample.end_seconds - sample.due_seconds);
    if (sample.output_tokens > 0) ttft.push_back(Ttft(sample));
    if (sample.output_tokens > 1)
      per_token.push_back(TimePerOutputToken(sample));
    gaps.insert(gaps.end(), sample.gaps_seconds.begin(),
                sample.gaps_seconds.end());
  }
  if (!samples_.empty()) result.seconds = last_end - first_due;
  result.ttft_seconds = DistributionOf(std::move(ttft));
  result.inter_token_seconds = DistributionOf(std::move(gaps));
  result.time_per_output_token_seconds = DistributionOf(std::move(per_token));
  result.end_to_end_seconds = DistributionOf(std::move(total));
  return result;
}

}  // namespace phalanx
