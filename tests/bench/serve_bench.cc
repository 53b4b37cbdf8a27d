// The speed that one client sees, through gateway and worker, beside the
// machine's own limits: decode rate of one stream, and the time to the first
// token of a short prompt. Talks to a running service; not a test.
//
//   phalanx serve --tp-size 1 --address 127.0.0.1:7000 &
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

#include "inference.grpc.pb.h"
#include "tests/bench/kernel_bench_roofs.h"

namespace phalanx {
namespace {

using Seconds = std::chrono::duration<double>;

// What the issue asks of phalanx-mini at TP 1.
constexpr double kDecodeFloor = 1000;       // Tokens per second.
constexpr double kFirstTokenFloor = 0.010;  // Seconds, median.

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
  constexpr int64_t kBytes = int64_t{512} << 20;
  const std::unique_ptr<char, decltype(&std::free)> data(
      static_cast<char*>(std::aligned_alloc(64, kBytes)), &std::free);
  std::memset(data.get(), 1, kBytes);
  std::vector<double> read, fma, dot;
  for (int i = 0; i < 5; ++i) {
    double start = Now();
    ReadMemory(data.get(), kBytes);
    read.push_back(kBytes / (Now() - start));
    start = Now();
    const double flops = FmaFlops();
    fma.push_back(flops / (Now() - start));
    start = Now();
    const double dots = Bf16DotFlops();
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

int Main(int argc, char** argv) {
  CLI::App app(
      "serve_bench: decode rate and time to first token of a running "
      "service, beside the machine's limits.");
  std::string address;
  int rounds = 9;
  int64_t tokens = 1000;
  bool check = false;
  app.add_option("--address", address, "Where the gateway listens")->required();
  app.add_option("--rounds", rounds, "Streams of the decode figure")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--tokens", tokens, "Tokens of each")
      ->check(CLI::Range(2, 8000))
      ->capture_default_str();
  app.add_flag("--check", check, "Exit 1 below phalanx-mini's floors at TP 1");
  CLI11_PARSE(app, argc, argv);

  PrintMachine();
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  Stream(*stub, "Count from 1 to 10.", 16);  // Connects and warms up.
  std::vector<double> rates;
  for (int i = 0; i < rounds; ++i)
    rates.push_back(
        Stream(*stub, "Count from 1 to 10.", tokens).decode_tokens_per_second);
  std::vector<double> firsts;
  for (int i = 0; i < 100; ++i)
    firsts.push_back(Stream(*stub, "What is 2 + 3?", 1).first_token_seconds);
  const double rate = Median(rates);
  const double first = Median(firsts);
  std::printf("one stream, decode     %8.0f tokens/s   median of %d x %lld\n",
              rate, rounds, static_cast<long long>(tokens));
  std::printf("short prompt, first    %8.2f ms         median of 100\n",
              first * 1e3);
  if (!check) return 0;
  const bool ok = rate >= kDecodeFloor && first <= kFirstTokenFloor;
  std::printf("floors: %.0f tokens/s, %.0f ms: %s\n", kDecodeFloor,
              kFirstTokenFloor * 1e3, ok ? "met" : "missed");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
