#include "gateway/cli/bench_serve.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/reason.h"
#include "common/status.h"
#include "gateway/cli/bench_client.h"
#include "gateway/cli/bench_report.h"
#include "gateway/cli/client.h"
#include "gateway/cli/flags.h"
#include "gateway/cli/interrupt.h"
#include "gateway/cli/standard_output.h"
#include "gateway/cli/terminal_line.h"

namespace phalanx {
namespace {

constexpr int64_t kUsualRequests = 100;
constexpr int64_t kUsualConcurrency = 16;
// An open loop is bounded too: threads or memory of the client are not what is
// measured.
constexpr int64_t kMostConcurrency = 16384;
constexpr int64_t kMostRequests = 1'000'000;
// So long, at thousands of tokens a second, the gaps between them fit memory.
constexpr double kMostSeconds = 3600;
constexpr int64_t kMostTokens = int64_t{1} << 24;
constexpr double kAnswerSeconds = 10;
// Requests that warm up are others than those that are measured.
constexpr int64_t kWarmupIndex = int64_t{1} << 40;

absl::StatusOr<v1::GetModelResponse> AskModel(v1::Inference::Stub& stub,
                                              const std::string& address) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::duration<double>(kAnswerSeconds)));
  v1::GetModelResponse model;
  const absl::Status status = FromGrpc(stub.GetModel(&context, {}, &model));
  if (absl::IsUnavailable(status) && ReasonOf(status).word.empty())
    return absl::UnavailableError(absl::StrCat(
        "no service answers at ", address, "; start one with `phalanx serve`"));
  if (!status.ok()) return status;
  return model;
}

BenchLoad LoadOf(const BenchOptions& o) {
  BenchLoad load{.rate = o.rate,
                 .concurrency = o.concurrency.value_or(
                     o.rate ? kMostConcurrency : kUsualConcurrency)};
  if (o.requests)
    load.requests = *o.requests;
  else if (!o.duration_seconds)
    load.requests = kUsualRequests;
  if (o.duration_seconds) load.duration_seconds = *o.duration_seconds;
  return load;
}

std::optional<double> SecondsOf(const std::optional<double>& milliseconds) {
  if (!milliseconds) return std::nullopt;
  return *milliseconds / 1e3;
}

// A run as its flags say, at `address`, against `model`.
BenchReport Describe(const BenchOptions& o, std::string address,
                     v1::GetModelResponse model) {
  BenchReport report{
      .address = std::move(address),
      .model = std::move(model),
      .workload = {.seed = o.seed,
                   .prompt_tokens = o.prompt_tokens,
                   .output_tokens = o.output_tokens,
                   .shared_prefix_tokens = o.shared_prefix_tokens,
                   .text = o.text,
                   .cancel_share = o.cancel_share},
      .load = LoadOf(o),
      .settings = {.temperature = o.temperature,
                   .ignore_eos = o.ignore_eos == "true",
                   .timeout_seconds = o.timeout_seconds},
      .warmup_requests = o.warmup_requests,
      .slo = {.ttft_seconds = SecondsOf(o.slo_ttft_ms),
              .itl_seconds = SecondsOf(o.slo_itl_ms)},
      .result = {}};
  report.workload.max_model_len = report.model.max_model_len();
  report.workload.vocab_size = report.model.vocab_size();
  return report;
}

// What Ctrl-C does: ends the run early, and the process where there is none, or
// at the second one.
class Interruptible {
 public:
  void Watch(BenchClient* client) {
    MutexLock lock(mutex_);
    client_ = client;
  }

  void OnInterrupt() {
    MutexLock lock(mutex_);
    if (client_ == nullptr || client_->stopped()) _exit(kInterruptedExitCode);
    client_->Stop();
  }

 private:
  Mutex mutex_;
  BenchClient* client_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// Warms up, measures and fills report.result.
void Measure(const BenchWorkload& workload, v1::Inference::Stub& stub,
             Interruptible& interruptible, BenchReport& report) {
  MonotonicClock clock;
  BenchClient client(stub, clock, workload, report.settings);
  interruptible.Watch(&client);
  TerminalLine line(STDERR_FILENO);
  if (report.warmup_requests > 0) {
    BenchLoad warmup;
    warmup.requests = report.warmup_requests;
    warmup.concurrency =
        std::min(report.load.concurrency, report.warmup_requests);
    line.Show("warming up");
    client.Run(warmup, kWarmupIndex, report.workload.seed,
               [](const BenchProgress&) {});
  }
  const BenchRecord record = client.Run(
      report.load, 0, report.workload.seed, [&](const BenchProgress& progress) {
        line.Show(BenchProgressText(progress, report.load, line.Columns()));
      });
  line.Clear();
  interruptible.Watch(nullptr);
  report.result = record.Result(report.slo);
  report.interrupted = client.stopped();
}

absl::StatusOr<BenchReport> Bench(const BenchOptions& options,
                                  Interruptible& interruptible) {
  ASSIGN_OR_RETURN(const std::string address, FindAddress(options.address));
  const auto stub = v1::Inference::NewStub(ChannelTo(address));
  ASSIGN_OR_RETURN(v1::GetModelResponse model, AskModel(*stub, address));
  if (options.text && !model.has_tokenizer())
    return absl::InvalidArgumentError(absl::StrCat(
        "--text needs a tokenizer; the model ", model.name(), " has none"));
  BenchReport report = Describe(options, address, std::move(model));
  ASSIGN_OR_RETURN(const BenchWorkload workload,
                   BenchWorkload::Create(report.workload));
  Measure(workload, *stub, interruptible, report);
  return report;
}

void AddLoadFlags(CLI::App& verb, BenchOptions& o) {
  verb.add_option("--rate", o.rate,
                  "Open loop: so many requests a second come, at random "
                  "(Poisson), whether or not earlier ones have ended; times "
                  "count from when each was due")
      ->check(NumberIn(0, 1e6, /*above_low=*/true));
  verb.add_option("--concurrency", o.concurrency,
                  "Closed loop: so many requests at once, the next as one "
                  "ends; 16 if neither this nor --rate is given. With --rate "
                  "the most at once")
      ->check(CLI::Range(int64_t{1}, kMostConcurrency));
  verb.add_option("--requests", o.requests,
                  "How many; 100 if neither this nor --duration is given")
      ->check(CLI::Range(int64_t{1}, kMostRequests));
  verb.add_option("--duration", o.duration_seconds,
                  "No request is sent after so many seconds; those under way "
                  "are awaited")
      ->check(NumberIn(0, kMostSeconds, /*above_low=*/true));
  verb.add_option("--warmup", o.warmup_requests,
                  "Requests beforehand that are not measured")
      ->check(CLI::Range(int64_t{0}, kMostRequests))
      ->capture_default_str();
  verb.add_option("--timeout", o.timeout_seconds,
                  "A request that takes so many seconds has failed")
      ->check(NumberIn(0, kMostSeconds, /*above_low=*/true))
      ->capture_default_str();
}

void AddRequestFlags(CLI::App& verb, BenchOptions& o) {
  verb.add_option("--seed", o.seed,
                  "Of lengths, prompts, arrivals and sampling")
      ->capture_default_str();
  verb.add_option("--prompt-tokens", o.prompt_tokens,
                  "Length of every prompt; drawn if not given")
      ->check(CLI::Range(int64_t{1}, kMostTokens));
  verb.add_option("--output-tokens", o.output_tokens,
                  "Length of every answer; drawn if not given")
      ->check(CLI::Range(int64_t{1}, kMostTokens));
  verb.add_option("--shared-prefix", o.shared_prefix_tokens,
                  "Tokens before each prompt that are the same for all")
      ->check(CLI::Range(int64_t{0}, kMostTokens))
      ->capture_default_str();
  verb.add_flag("--text", o.text,
                "Prompts are words, as many as there were tokens, instead of "
                "random ids; a word may be several tokens");
  verb.add_option("--cancel", o.cancel_share,
                  "This share of the requests, drawn from the seed, is "
                  "cancelled somewhere in its answer, by a call of Cancel")
      ->check(NumberIn(0, 1))
      ->capture_default_str();
  verb.add_option("--temperature", o.temperature,
                  "0 always takes the most likely token; the service's own "
                  "if not given")
      ->check(NumberIn(0, 100));
  verb.add_option("--ignore-eos", o.ignore_eos,
                  "Whether answers are as long as drawn, past the model's own "
                  "end")
      ->check(CLI::IsMember({"true", "false"}))
      ->capture_default_str();
}

}  // namespace

void AddBenchFlags(CLI::App& verb, BenchOptions& o) {
  verb.add_option("what", o.what,
                  "What to measure: a running service, or kernels or a model "
                  "on this machine, which have flags of their own")
      ->check(CLI::IsMember({"serve", "kernels", "model"}));
  verb.add_option("--address", o.address,
                  "The service, HOST:PORT; that of the last `phalanx serve` "
                  "if not given");
  AddLoadFlags(verb, o);
  AddRequestFlags(verb, o);
  verb.add_option("--slo-ttft-ms", o.slo_ttft_ms,
                  "Goodput: the first token within so many milliseconds")
      ->check(NumberIn(0, 1e9, /*above_low=*/true));
  verb.add_option("--slo-itl-ms", o.slo_itl_ms,
                  "Goodput: at most so many milliseconds from token to token, "
                  "in the mean of a request")
      ->check(NumberIn(0, 1e9, /*above_low=*/true));
  verb.add_flag("--json", o.json, "One JSON object, for programs");
  verb.footer(absl::StrCat(
      "Lengths that are drawn are log-normal, near those of ShareGPT: prompts "
      "of median\n",
      kPromptMedianTokens, " and sigma ", kPromptSigma, ", answers of median ",
      kOutputMedianTokens, " and sigma ", kOutputSigma, ", at least ",
      kLeastDrawnTokens,
      "\nand within the model's context. Ctrl-C ends early and reports what "
      "was measured.\n"
      "`phalanx bench kernels --help` and `phalanx bench model --help` have "
      "the flags of those.\n"
      "Exit codes: 0 done, 1 a request failed, 130 Ctrl-C.\n"
      "Examples:\n"
      "  phalanx bench serve\n"
      "  phalanx bench serve --concurrency 64 --requests 500 --warmup 32\n"
      "  phalanx bench serve --rate 8 --duration 60 --slo-ttft-ms 500 "
      "--slo-itl-ms 50\n"
      "  phalanx bench serve --shared-prefix 2000 --prompt-tokens 50 --json"));
}

int RunBench(const BenchOptions& options) {
  // Those of the worker never come here with their word first.
  if (options.what != "serve") {
    std::fputs(
        "phalanx bench: say first what to measure: `phalanx bench serve`, a "
        "running service, `phalanx bench kernels` or `phalanx bench model`\n",
        stderr);
    return static_cast<int>(CLI::ExitCodes::RequiredError);
  }
  Interruptible interruptible;
  Interrupt interrupt([&] { interruptible.OnInterrupt(); });
  const absl::StatusOr<BenchReport> report = Bench(options, interruptible);
  if (!report.ok()) return Fail("bench", report.status());
  const absl::Status written =
      WriteOut(options.json ? absl::StrCat(BenchJson(*report), "\n")
                            : BenchText(*report));
  if (!written.ok()) return Fail("bench", written);
  if (report->interrupted) return kInterruptedExitCode;
  return report->result.failed == 0 ? 0 : 1;
}

}  // namespace phalanx
