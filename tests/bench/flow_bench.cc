// Everything of a step that is not weights: each op beside its own limit, and
// all of them beside what the weights cost at the roof. Limits are measured in
// the same round as the ops held against them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/bench/flow_bench_memory.h"
#include "tests/bench/flow_bench_ops.h"

namespace phalanx {
namespace {

// Parameters that a token reads (performance.md 3.1).
constexpr double kDenseParameters = 1011.6e6 + 272.6e6 + 125.9e6 + 21.0e6;
constexpr double kHeadParameters = 508.6e6;
constexpr double kExpertParameters = 3.0 * 2048 * 512;
constexpr double kPrefillFlops = 4.88e9;  // A token, without the head.

// Bytes of a parameter, scales included (groups of 128, 64).
struct Format {
  const char* name;
  double bytes;
};
constexpr Format kFormats[] = {
    {"bf16", 2.0}, {"int8", 1.0 + 2.0 / 128}, {"int4", 0.5 + 2.0 / 64}};

constexpr double kSecondsPerOp = 0.004;
constexpr int64_t kMaxContext = 131072;

constexpr const char* kHelp =
    "Usage: flow_bench [--threads N] [--rounds N] [--tokens T] [--context C]\n"
    "                  [--prefill]\n"
    "\n"
    "Every op of Qwen3.5-35B-A3B that reads no weights, beside its own limit\n"
    "on this machine, and their sum beside what the weights cost at the roof.\n"
    "Without --tokens: decode of 1, 4, 8, 16 and 32 streams at contexts 0,\n"
    "4096 and 32768, then prefill of 128 and 512 tokens.\n"
    "\n"
    "  --threads N   of the ops and the limits (default: all CPUs)\n"
    "  --rounds N    medians of so many rounds (default: 5)\n"
    "  --tokens T    one case: T streams that decode\n"
    "  --context C   of that case (default: 4096)\n"
    "  --prefill     T rows of one sequence instead\n"
    "  --help        this text\n";

struct Options {
  int threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int rounds = 5;
  int64_t tokens = 0;
  int64_t context = 4096;
  bool prefill = false;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds of a call, over enough calls to measure.
double SecondsPerCall(const Op& op) {
  static int64_t layer = 0;
  int64_t calls = 1;
  for (;;) {
    const double seconds = Seconds([&] {
      for (int64_t i = 0; i < calls; ++i) op.run(layer++);
    });
    if (seconds >= kSecondsPerOp) return seconds / static_cast<double>(calls);
    calls = std::max<int64_t>(
        2 * calls,
        static_cast<int64_t>(static_cast<double>(calls) * kSecondsPerOp /
                             std::max(seconds, 1e-7)));
  }
}

// What the weights of a step cost at the machine's limit.
double WeightSeconds(const Case& shape, const Format& format,
                     const Limits& limits) {
  const double T = static_cast<double>(shape.tokens);
  if (shape.prefill) {
    const bool bf16 = format.bytes == 2.0;
    const double peak =
        bf16 ? std::max(limits.fma, limits.bf16_dot) : limits.int8_dot;
    return T * kPrefillFlops / peak;
  }
  const double experts =
      kExperts * (1 - std::pow(1 - 1.0 * kExpertsPerToken / kExperts, T));
  const double parameters = kDenseParameters + kHeadParameters +
                            kLayers * experts * kExpertParameters;
  return parameters * format.bytes / limits.read;
}

void Measure(Memory& memory, const Case& shape, int rounds) {
  const Flow flow(memory, shape);
  const size_t count = flow.ops().size();
  std::vector<std::vector<double>> seconds(count), ratios(count);
  std::map<const char*, std::vector<double>> shares;
  std::vector<double> sums;
  for (int round = 0; round < rounds; ++round) {
    const Limits limits = memory.Measure();
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const Op& op = flow.ops()[i];
      const double s = SecondsPerCall(op);
      seconds[i].push_back(s);
      ratios[i].push_back(op.LimitSeconds(limits) / s);
      sum += s * op.calls;
    }
    sums.push_back(sum);
    for (const Format& format : kFormats)
      shares[format.name].push_back(
          sum / (sum + WeightSeconds(shape, format, limits)));
  }
  std::printf("\n%s %ld, context %ld\n", shape.prefill ? "prefill" : "decode",
              static_cast<long>(shape.tokens),
              static_cast<long>(shape.context));
  for (size_t i = 0; i < count; ++i) {
    const Op& op = flow.ops()[i];
    std::printf("  %-15s %10.2f us x %2d = %8.3f ms   %.2f of its limit\n",
                op.name, Median(seconds[i]) * 1e6, op.calls,
                Median(seconds[i]) * op.calls * 1e3, Median(ratios[i]));
  }
  std::printf("  all %.3f ms; with the weights at the roof:",
              Median(sums) * 1e3);
  for (const Format& format : kFormats)
    std::printf(" %s %.1f %%", format.name, Median(shares[format.name]) * 100);
  std::printf("\n");
}

void PrintLimits(const Limits& l) {
  std::printf(
      "limits: read %.1f, update in place %.1f, in L2 %.1f GB/s; f32 fma "
      "%.0f, bf16 dot %.0f, int8 dot %.0f GOP/s\n",
      l.read / 1e9, l.update / 1e9, l.cached / 1e9, l.fma / 1e9,
      l.bf16_dot / 1e9, l.int8_dot / 1e9);
}

int64_t ParseCount(const char* flag, const char* text, int64_t low,
                   int64_t high) {
  char* end = nullptr;
  const long value = text == nullptr ? -1 : std::strtol(text, &end, 10);
  if (text == nullptr || *end != '\0' || value < low || value > high) {
    std::fprintf(stderr, "flow_bench: %s is \"%s\"; must be %ld..%ld\n", flag,
                 text == nullptr ? "" : text, static_cast<long>(low),
                 static_cast<long>(high));
    std::exit(2);
  }
  return value;
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    const auto count = [&](int64_t low, int64_t high) {
      ++i;
      return ParseCount(flag.c_str(), value, low, high);
    };
    if (flag == "--help") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    } else if (flag == "--prefill") {
      options.prefill = true;
    } else if (flag == "--threads") {
      options.threads = static_cast<int>(count(1, kMaxCpuThreads));
    } else if (flag == "--rounds") {
      options.rounds = static_cast<int>(count(1, 1000));
    } else if (flag == "--tokens") {
      options.tokens = count(1, 4096);
    } else if (flag == "--context") {
      options.context = count(0, kMaxContext);
    } else {
      std::fprintf(stderr, "flow_bench: unknown flag %s\n\n%s", argv[i], kHelp);
      std::exit(2);
    }
  }
  return options;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  const CpuFeatures cpu = DetectCpu();
  {
    Memory memory(options.threads);
    std::printf("%s (%s, family %d, model %d), %s, %d threads; medians of %d\n",
                cpu.name.c_str(), cpu.vendor.c_str(), cpu.family, cpu.model,
                memory.backend().instruction_set().c_str(), options.threads,
                options.rounds);
    PrintLimits(memory.Measure());
  }
  std::vector<Case> cases;
  if (options.tokens > 0) {
    cases.push_back({options.tokens, options.context, options.prefill});
  } else {
    for (const int64_t context : {0, 4096, 32768})
      for (const int64_t tokens : {1, 4, 8, 16, 32})
        cases.push_back({tokens, context, false});
    for (const int64_t context : {0, 4096})
      for (const int64_t tokens : {128, 512})
        cases.push_back({tokens, context, true});
  }
  for (const Case& shape : cases) {
    Memory memory(options.threads);
    Measure(memory, shape, options.rounds);
  }
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
