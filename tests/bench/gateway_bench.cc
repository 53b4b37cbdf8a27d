// What a token costs the gateway: its CPU time, user and system, while a
// scripted engine (in this process, as is the client) streams through it. The
// process is the real one; not a test.
//
//   build/release/bin/gateway_bench [--check]

#include <poll.h>
#include <signal.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "gateway/cli/bench_client.h"
#include "gateway/cli/bench_record.h"
#include "gateway/cli/bench_workload.h"
#include "gateway/cli/child_process.h"
#include "gateway/cli/client.h"
#include "gateway/tokenizer/tokenizer.h"
#include "tests/bench/scripted_engine.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

// What the issue asks for. Of an engine that goes in steps only with many
// streams: with few, what is measured is the waking of threads, once a step
// whatever the tokens.
constexpr double kMostMicroseconds = 20;
constexpr int64_t kManyStreams = 64;
constexpr int kVocabulary = 960;  // phalanx-mini's, which the tokenizer is of.
constexpr int64_t kPromptTokens = 16;
constexpr char kText[] =
    "The river runs past the old mill and under the stone bridge, where boats "
    "wait for the tide to turn before they go down to the sea again.";

struct Case {
  const char* name;
  int64_t streams;
  EngineScript script;
};

struct Figures {
  double cpu_us_per_token = 0;
  double tokens_per_second = 0;
  double cores = 0;
  Distribution ttft;
};

double CpuSeconds(pid_t pid) {
  clockid_t clock;
  CHECK(clock_getcpuclockid(pid, &clock) == 0);
  timespec time{};
  CHECK(clock_gettime(clock, &time) == 0);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

// The gateway, on a free port; ends with the object.
class GatewayProcess {
 public:
  GatewayProcess(const std::string& model, const std::string& worker)
      : child_(*ChildProcess::Start({ProgramFolder() + "/phalanx-gateway",
                                     "--model", model, "--workers", worker,
                                     "--metrics-listen", "off"})) {
    while (address_.empty()) {
      pollfd fd{.fd = child_.stderr_fd(), .events = POLLIN, .revents = 0};
      CHECK(fd.fd >= 0);
      poll(&fd, 1, -1);
      child_.ReadLines([&](absl::string_view line) {
        const Json event = Json::parse(std::string(line), nullptr, false);
        if (event.is_object() && event.value("event", "") == "listening")
          address_ = event.value("address", "");
      });
    }
  }

  pid_t pid() const { return child_.pid(); }
  const std::string& address() const { return address_; }
  // Its lines must not fill the pipe.
  void Drain() {
    child_.ReadLines([](absl::string_view) {});
  }

 private:
  ChildProcess child_;
  std::string address_;
};

v1::WorkerStatus Facts() {
  v1::WorkerStatus facts;
  facts.set_model_digest("scripted");
  facts.set_numerics_id("scripted");
  facts.set_max_model_len(1 << 20);
  facts.set_max_running(1024);
  facts.mutable_model()->set_vocab_size(kVocabulary);
  facts.mutable_model()->add_stop_ids(kVocabulary - 1);
  facts.mutable_model()->set_top_p(1);
  return facts;
}

// `seconds` of one case, in requests of about a tenth of it.
Figures Measure(const Case& c, double seconds, GatewayProcess& gateway,
                ScriptedEngine& engine, v1::Inference::Stub& stub) {
  engine.SetScript(c.script);
  const MonotonicClock clock;
  const auto run = [&](int64_t tokens, int64_t requests) {
    const auto workload =
        BenchWorkload::Create({.prompt_tokens = kPromptTokens,
                               .output_tokens = tokens,
                               .max_model_len = Facts().max_model_len(),
                               .vocab_size = kVocabulary});
    CHECK(workload.ok());
    BenchClient client(stub, clock, *workload, {});
    BenchLoad load;
    load.concurrency = c.streams;
    load.requests = requests;
    const BenchRecord record =
        client.Run(load, 0, 0, [&](const BenchProgress&) { gateway.Drain(); });
    const BenchResult result = record.Result({});
    for (const auto& [word, message] : result.messages)
      std::fprintf(stderr, "gateway_bench: %s: %s\n", word.c_str(),
                   message.c_str());
    CHECK(result.failed == 0);
    return result;
  };
  // Also says how many tokens a second's tenth is.
  const BenchResult trial = run(200, c.streams);
  const double per_stream =
      trial.PerSecond(trial.output_tokens) / static_cast<double>(c.streams);
  const int64_t tokens =
      std::clamp<int64_t>(static_cast<int64_t>(per_stream * seconds / 10), 100,
                          Facts().max_model_len() / 2);
  const double before = CpuSeconds(gateway.pid());
  const BenchResult result = run(tokens, 10 * c.streams);
  const double cpu = CpuSeconds(gateway.pid()) - before;
  return {
      .cpu_us_per_token = cpu / static_cast<double>(result.output_tokens) * 1e6,
      .tokens_per_second = result.PerSecond(result.output_tokens),
      .cores = cpu / result.seconds,
      .ttft = result.ttft_seconds};
}

std::vector<Case> Cases(const std::vector<int64_t>& streams,
                        std::chrono::microseconds step) {
  const std::pair<const char*, EngineScript> scripts[] = {
      {"one token a message", {.tokens_per_message = 1}},
      {"8 tokens a message", {.tokens_per_message = 8}},
      {"a token each step", {.tokens_per_message = 1, .step = step}}};
  std::vector<Case> cases;
  for (const auto& [name, script] : scripts)
    for (const int64_t count : streams) cases.push_back({name, count, script});
  return cases;
}

int Main(int argc, char** argv) {
  CLI::App app("gateway_bench: the gateway's CPU time for each token.");
  std::string model = "deploy/models/phalanx-mini";
  double seconds = 2;
  int64_t step_us = 5000;
  std::vector<int64_t> streams = {1, 16, 64};
  bool check = false;
  app.add_option("--model", model, "Folder of phalanx-mini, for its tokenizer")
      ->capture_default_str();
  app.add_option("--seconds", seconds, "About so long for each case")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  app.add_option("--streams", streams, "How many at once, comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--step-us", step_us, "Of the engine that goes in steps")
      ->check(CLI::Range(100, 1'000'000))
      ->capture_default_str();
  app.add_flag("--check", check,
               "Exit 1 above 20 us a token: as fast as it goes, and in steps "
               "with 64 streams or more");
  CLI11_PARSE(app, argc, argv);

  const auto tokenizer = Tokenizer::Load(model);
  CHECK(tokenizer.ok());
  const auto ids = (*tokenizer)->Encode(kText);
  CHECK(ids.ok());
  const std::string socket =
      absl::StrCat("unix:", (std::filesystem::temp_directory_path() /
                             absl::StrCat("phalanx-gateway-bench-", getpid()))
                                .string());
  ScriptedEngine engine(socket, Facts(), *ids);
  GatewayProcess gateway(model, socket);
  const auto stub = v1::Inference::NewStub(ChannelTo(gateway.address()));
  v1::GetModelResponse ready;
  for (grpc::Status status = grpc::Status::CANCELLED; !status.ok();) {
    grpc::ClientContext context;
    status = stub->GetModel(&context, {}, &ready);
  }

  std::printf("%-22s %7s %12s %10s %6s %14s\n", "", "streams", "CPU us/token",
              "tokens/s", "cores", "first token ms");
  Json rows = Json::array();
  double most = 0;
  for (const Case& c : Cases(streams, std::chrono::microseconds(step_us))) {
    const Figures f = Measure(c, seconds, gateway, engine, *stub);
    if (c.script.step.count() == 0 || c.streams >= kManyStreams)
      most = std::max(most, f.cpu_us_per_token);
    std::printf("%-22s %7lld %12.2f %10.0f %6.2f %14.2f\n", c.name,
                static_cast<long long>(c.streams), f.cpu_us_per_token,
                f.tokens_per_second, f.cores, f.ttft.p50 * 1e3);
    std::fflush(stdout);
    rows.push_back({{"engine", c.name},
                    {"streams", c.streams},
                    {"cpu_us_per_token", f.cpu_us_per_token},
                    {"tokens_per_second", f.tokens_per_second},
                    {"cores", f.cores},
                    {"ttft_p50_ms", f.ttft.p50 * 1e3}});
  }
  std::printf("%s\n",
              Json{{"step_us", step_us}, {"cases", rows}}.dump().c_str());
  return check && most > kMostMicroseconds ? 1 : 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
