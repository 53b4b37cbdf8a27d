// The speed that clients see, through gateway and worker, beside the machine's
// own limits: decode rate of one stream, the time to the first token of a short
// prompt, and many streams at once against the engine alone, in turns. Talks to
// a running service of phalanx-mini; not a test.
//
//   phalanx serve --tp-size 1 --max-running 64 --address 127.0.0.1:7000 &
//   serve_bench --address 127.0.0.1:7000

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "gateway/cli/bench_client.h"
#include "inference.grpc.pb.h"
#include "kernels/cpu/cpu_roof_loops.h"
#include "tests/bench/engine_alone.h"

namespace phalanx {
namespace {

using Seconds = std::chrono::duration<double>;

// What the issue asks of phalanx-mini at TP 1.
constexpr double kDecodeFloor = 1000;       // Tokens per second.
constexpr double kFirstTokenFloor = 0.010;  // Seconds, median.
constexpr double kAloneFloor = 0.6;         // Of the engine alone.
constexpr double kOneStreamFloor = 4;       // Times one stream.

constexpr int64_t kPromptTokens = 32;

struct Timing {
  double first_token_seconds = 0;
  double decode_tokens_per_second = 0;
};

double Now() {
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One thread's roofs, so that the figures below can be held against a machine.
void PrintMachine() {
  const RoofLoops loops = CpuRoofLoops();
  constexpr int64_t kBytes = int64_t{512} << 20;
  const std::unique_ptr<char, decltype(&std::free)> data(
      static_cast<char*>(std::aligned_alloc(64, kBytes)), &std::free);
  std::memset(data.get(), 1, kBytes);
  std::vector<double> read, fma, dot;
  for (int i = 0; i < 5; ++i) {
    double start = Now();
    loops.read(data.get(), kBytes);
    read.push_back(kBytes / (Now() - start));
    start = Now();
    const double flops = loops.f32_fma();
    fma.push_back(flops / (Now() - start));
    start = Now();
    const double dots = loops.bf16_dot == nullptr ? 0 : loops.bf16_dot();
    dot.push_back(dots == 0 ? 0 : dots / (Now() - start));
  }
  std::printf(
      "machine, one thread: read %.1f GB/s, f32 FMA %.0f GFLOP/s, bf16 "
      "dot %.0f GFLOP/s\n",
      Median(read) / 1e9, Median(fma) / 1e9, Median(dot) / 1e9);
}

// One stream, timed at the client. Exits with the status's words on an error.
Timing Stream(v1::Inference::Stub& stub, const std::string& text,
              int64_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  grpc::ClientContext context;
  const double start = Now();
  double first = 0;
  double last = 0;
  int64_t tokens = 0;
  const auto reader = stub.Generate(&context, request);
  v1::GenerateEvent event;
  while (reader->Read(&event)) {
    const int64_t count = event.delta().token_ids_size();
    if (count == 0) continue;
    last = Now();
    if (tokens == 0) first = last;
    tokens += count;
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok() || tokens < 1) {
    std::fprintf(stderr, "serve_bench: %s\n", status.error_message().c_str());
    std::exit(1);
  }
  return {
      .first_token_seconds = first - start,
      .decode_tokens_per_second =
          tokens > 1 ? static_cast<double>(tokens - 1) / (last - first) : 0};
}

struct Together {
  std::vector<double> alone, streams, one, of_alone, of_one;
};

// Tokens per second of the workload's first `streams` requests, all at once,
// from the first call to the last end.
double ServiceRate(v1::Inference::Stub& stub, const BenchWorkload& workload,
                   int64_t streams) {
  const MonotonicClock clock;
  BenchClient client(stub, clock, workload, {.temperature = 0});
  BenchLoad load;
  load.concurrency = load.requests = streams;
  const BenchResult result =
      client.Run(load, 0, 0, [](const BenchProgress&) {}).Result({});
  for (const auto& [word, message] : result.messages)
    std::fprintf(stderr, "serve_bench: %s: %s\n", word.c_str(),
                 message.c_str());
  if (result.failed > 0) std::exit(1);
  return result.PerSecond(result.output_tokens);
}

// The engine alone, the same requests through the service, and one of them: in
// turns, since the machine's own speed comes and goes.
Together MeasureTogether(v1::Inference::Stub& stub, const std::string& model,
                         int64_t streams, int64_t tokens, int rounds) {
  const int64_t length = kPromptTokens + tokens;
  EngineAlone engine(model, streams, length);
  const BenchWorkload workload =
      *BenchWorkload::Create({.seed = 0,
                              .prompt_tokens = kPromptTokens,
                              .output_tokens = tokens,
                              .shared_prefix_tokens = 0,
                              .text = false,
                              .max_model_len = length,
                              .vocab_size = engine.vocab_size()});
  ServiceRate(stub, workload, streams);
  Together together;
  for (int i = 0; i < rounds; ++i) {
    together.alone.push_back(engine.Run(workload, streams));
    together.streams.push_back(ServiceRate(stub, workload, streams));
    together.one.push_back(ServiceRate(stub, workload, 1));
    together.of_alone.push_back(together.streams.back() /
                                together.alone.back());
    together.of_one.push_back(together.streams.back() / together.one.back());
  }
  std::printf(
      "engine alone, batch %-3lld %8.0f tokens/s   median of %d\n"
      "%3lld streams           %8.0f tokens/s   %.2f of the engine alone, "
      "%.2f x one stream\n"
      "one stream            %8.0f tokens/s   prompt included\n",
      static_cast<long long>(streams), Median(together.alone), rounds,
      static_cast<long long>(streams), Median(together.streams),
      Median(together.of_alone), Median(together.of_one), Median(together.one));
  return together;
}

struct Options {
  std::string address;
  std::string model = "deploy/models/phalanx-mini";
  int rounds = 9;
  int64_t tokens = 1000;
  int64_t streams = 64;
  int64_t stream_tokens = 200;
  bool check = false;
};

// One client alone; whether the floors are met.
bool MeasureOne(v1::Inference::Stub& stub, const Options& o) {
  Stream(stub, "Count from 1 to 10.", 16);  // Connects and warms up.
  std::vector<double> rates;
  for (int i = 0; i < o.rounds; ++i)
    rates.push_back(
        Stream(stub, "Count from 1 to 10.", o.tokens).decode_tokens_per_second);
  std::vector<double> firsts;
  for (int i = 0; i < 100; ++i)
    firsts.push_back(Stream(stub, "What is 2 + 3?", 1).first_token_seconds);
  const double rate = Median(rates);
  const double first = Median(firsts);
  std::printf("one stream, decode     %8.0f tokens/s   median of %d x %lld\n",
              rate, o.rounds, static_cast<long long>(o.tokens));
  std::printf("short prompt, first    %8.2f ms         median of 100\n",
              first * 1e3);
  return rate >= kDecodeFloor && first <= kFirstTokenFloor;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "serve_bench: what clients of a running service see, beside the "
      "machine's limits and the engine alone.");
  Options o;
  app.add_option("--address", o.address, "Where the gateway listens")
      ->required();
  app.add_option("--model", o.model, "What it serves, for the engine alone")
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "Of each figure")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--tokens", o.tokens, "Tokens of the decode figure's streams")
      ->check(CLI::Range(2, 8000))
      ->capture_default_str();
  app.add_option("--streams", o.streams,
                 "At once; the service's --max-running must be as much")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  app.add_option("--stream-tokens", o.stream_tokens, "Tokens of each of those")
      ->check(CLI::Range(2, 8000))
      ->capture_default_str();
  app.add_flag("--check", o.check,
               "Exit 1 below phalanx-mini's floors at TP 1, of 64 streams");
  CLI11_PARSE(app, argc, argv);

  PrintMachine();
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(o.address, grpc::InsecureChannelCredentials()));
  const bool one = MeasureOne(*stub, o);
  const Together together =
      MeasureTogether(*stub, o.model, o.streams, o.stream_tokens, o.rounds);
  if (!o.check) return 0;
  const bool ok = one && Median(together.of_alone) >= kAloneFloor &&
                  Median(together.of_one) >= kOneStreamFloor;
  std::printf(
      "floors: %.0f tokens/s, %.0f ms, %.1f of the engine alone, %.0f x one "
      "stream: %s\n",
      kDecodeFloor, kFirstTokenFloor * 1e3, kAloneFloor, kOneStreamFloor,
      ok ? "met" : "missed");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
