#include "gateway/cli/bench_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gateway/cli/terminal_line.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

double Share(const BenchResult& result) {
  return result.ended() == 0 ? 0
                             : static_cast<double>(result.good) /
                                   static_cast<double>(result.ended());
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json Milliseconds(const std::optional<double>& seconds) {
  return seconds ? Json(*seconds * 1e3) : Json();
}

Json DistributionJson(const Distribution& d) {
  return {{"count", d.count},   {"mean", d.mean * 1e3}, {"p50", d.p50 * 1e3},
          {"p90", d.p90 * 1e3}, {"p95", d.p95 * 1e3},   {"p99", d.p99 * 1e3},
          {"max", d.max * 1e3}};
}

std::string Row(const char* name, const Distribution& d) {
  if (d.count == 0) return absl::StrFormat("%-20s -\n", name);
  return absl::StrFormat("%-20s %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f\n", name,
                         d.mean * 1e3, d.p50 * 1e3, d.p90 * 1e3, d.p95 * 1e3,
                         d.p99 * 1e3, d.max * 1e3);
}

// "open loop of 5 requests/s, at most 1024 at once".
std::string LoadText(const BenchLoad& load) {
  std::string text =
      load.rate ? absl::StrFormat("open loop of %g requests/s, at most %d",
                                  *load.rate, load.concurrency)
                : absl::StrFormat("closed loop of %d", load.concurrency);
  if (load.rate) absl::StrAppend(&text, " at once");
  if (load.requests != kUnbounded)
    absl::StrAppend(&text, ", ", load.requests, " requests");
  if (std::isfinite(load.duration_seconds))
    absl::StrAppend(&text, absl::StrFormat(", %g s", load.duration_seconds));
  return text;
}

std::string LengthText(const std::optional<int64_t>& fixed) {
  return fixed ? absl::StrCat(*fixed) : "drawn";
}

std::string WorkloadText(const BenchReport& report) {
  const WorkloadConfig& w = report.workload;
  std::string text = absl::StrCat(
      "seed ", w.seed, ", prompts ", LengthText(w.prompt_tokens), ", outputs ",
      LengthText(w.output_tokens), w.text ? ", as words" : "");
  if (w.shared_prefix_tokens > 0)
    absl::StrAppend(&text, ", shared prefix ", w.shared_prefix_tokens);
  if (report.warmup_requests > 0)
    absl::StrAppend(&text, ", after ", report.warmup_requests, " to warm up");
  return text;
}

std::string GoodputText(const BenchReport& report) {
  const BenchResult& r = report.result;
  std::string bounds;
  if (report.slo.ttft_seconds)
    bounds =
        absl::StrFormat("first token in %g ms", *report.slo.ttft_seconds * 1e3);
  if (report.slo.itl_seconds)
    absl::StrAppend(
        &bounds, bounds.empty() ? "" : ", ",
        absl::StrFormat("a token every %g ms", *report.slo.itl_seconds * 1e3));
  return absl::StrFormat("goodput   %d of %d (%.1f %%), %.2f requests/s: %s\n",
                         r.good, r.ended(), Share(r) * 100, r.PerSecond(r.good),
                         bounds);
}

}  // namespace

std::string BenchText(const BenchReport& report) {
  const BenchResult& r = report.result;
  std::string text = absl::StrCat(
      report.model.name(), " at ", report.address, ", TP ",
      report.model.tp_size(), "\n", LoadText(report.load), "\n",
      WorkloadText(report), "\n\n",
      report.interrupted ? "Ended early; this is what was done by then.\n"
                         : "");
  absl::StrAppend(
      &text, absl::StrFormat("requests  %d ok, %d failed", r.ok, r.failed),
      r.cancelled > 0 ? absl::StrCat(", ", r.cancelled, " cancelled") : "",
      r.interrupted > 0 ? absl::StrCat(", ", r.interrupted, " cut off") : "",
      absl::StrFormat(" in %.2f s; %.2f requests/s\n", r.seconds,
                      r.PerSecond(r.ok)),
      absl::StrFormat("tokens    %d in (%d cached), %d out; %.1f out/s\n",
                      r.prompt_tokens, r.cached_tokens, r.output_tokens,
                      r.PerSecond(r.output_tokens)));
  if (report.slo.any()) absl::StrAppend(&text, GoodputText(report));
  if (r.resumes + r.preemptions > 0)
    absl::StrAppend(&text, "replays   ", r.resumes, " after a lost group, ",
                    r.preemptions, " pre-empted\n");
  for (const auto& [word, count] : r.errors)
    absl::StrAppend(&text, "error     ", count, " x ", word, ": ",
                    r.messages.at(word), "\n");
  absl::StrAppend(
      &text,
      absl::StrFormat("\n%-20s %9s %9s %9s %9s %9s %9s\n", "milliseconds",
                      "mean", "p50", "p90", "p95", "p99", "max"),
      Row("time to first token", r.ttft_seconds),
      Row("inter-token", r.inter_token_seconds),
      Row("per output token", r.time_per_output_token_seconds),
      Row("end to end", r.end_to_end_seconds));
  return text;
}

std::string BenchJson(const BenchReport& report) {
  const BenchResult& r = report.result;
  const BenchLoad& load = report.load;
  Json json = {{"address", report.address},
               {"model", report.model.name()},
               {"numerics_id", report.model.numerics_id()},
               {"device", report.model.device()},
               {"moe_mode", report.model.moe_mode()},
               {"tp_size", report.model.tp_size()},
               {"interrupted", report.interrupted}};
  json["load"] = {
      {"loop", load.rate ? "open" : "closed"},
      {"rate", OrNull(load.rate)},
      {"concurrency", load.concurrency},
      {"requests", load.requests == kUnbounded ? Json() : Json(load.requests)},
      {"duration_seconds", std::isfinite(load.duration_seconds)
                               ? Json(load.duration_seconds)
                               : Json()},
      {"warmup_requests", report.warmup_requests}};
  const WorkloadConfig& w = report.workload;
  json["workload"] = {{"seed", w.seed},
                      {"prompt_tokens", OrNull(w.prompt_tokens)},
                      {"output_tokens", OrNull(w.output_tokens)},
                      {"shared_prefix_tokens", w.shared_prefix_tokens},
                      {"text", w.text},
                      {"cancel_share", w.cancel_share},
                      {"temperature", OrNull(report.settings.temperature)},
                      {"ignore_eos", report.settings.ignore_eos}};
  json["requests"] = {{"ok", r.ok},
                      {"failed", r.failed},
                      {"cancelled", r.cancelled},
                      {"interrupted", r.interrupted}};
  json["errors"] = Json::object();
  for (const auto& [word, count] : r.errors) json["errors"][word] = count;
  json["seconds"] = r.seconds;
  json["requests_per_second"] = r.PerSecond(r.ok);
  json["output_tokens_per_second"] = r.PerSecond(r.output_tokens);
  json["tokens"] = {{"prompt", r.prompt_tokens},
                    {"cached", r.cached_tokens},
                    {"output", r.output_tokens}};
  json["resumes"] = r.resumes;
  json["preemptions"] = r.preemptions;
  json["ttft_ms"] = DistributionJson(r.ttft_seconds);
  json["inter_token_ms"] = DistributionJson(r.inter_token_seconds);
  json["time_per_output_token_ms"] =
      DistributionJson(r.time_per_output_token_seconds);
  json["end_to_end_ms"] = DistributionJson(r.end_to_end_seconds);
  json["goodput"] = nullptr;
  if (report.slo.any())
    json["goodput"] = {{"slo_ttft_ms", Milliseconds(report.slo.ttft_seconds)},
                       {"slo_itl_ms", Milliseconds(report.slo.itl_seconds)},
                       {"requests", r.good},
                       {"share", Share(r)},
                       {"requests_per_second", r.PerSecond(r.good)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string BenchProgressText(const BenchProgress& progress,
                              const BenchLoad& load, int columns) {
  // Of a run that both bound, what is nearer to its end.
  double ratio = progress.seconds / load.duration_seconds;
  if (load.requests != kUnbounded)
    ratio = std::max(ratio, static_cast<double>(progress.ended) /
                                static_cast<double>(load.requests));
  const std::string head = absl::StrFormat("bench %3d%%", Percent(ratio));
  std::string tail = absl::StrFormat("  %d done, %d running", progress.ended,
                                     progress.running);
  if (progress.failed > 0)
    absl::StrAppend(&tail, ", ", progress.failed, " failed");
  if (progress.seconds > 0)
    absl::StrAppend(
        &tail, absl::StrFormat(
                   "  %.0f tokens/s",
                   static_cast<double>(progress.tokens) / progress.seconds));
  std::string text = absl::StrCat(head, "  ", Bar(ratio), tail);
  if (std::ssize(text) > columns) text = absl::StrCat(head, tail);
  return text.substr(0, static_cast<size_t>(std::max(columns, 0)));
}

}  // namespace phalanx
