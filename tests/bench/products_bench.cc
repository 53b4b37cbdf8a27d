// Every matrix product of a 35B-A3B layer, and the head, beside what this
// machine could do in the same moment: the time that reading the weights once
// takes at the measured bandwidth, or the operations at the measured peak of
// the family's instruction, whichever is longer, over the time it took.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_roof_loops.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/bench/products_bench_bank.h"

namespace phalanx {
namespace {

// Of one turn, of a limit or of a product.
constexpr double kTurnSeconds = 0.02;
constexpr int64_t kReadBytes = int64_t{128} << 20;
constexpr int kMaxRounds = 1000;

constexpr const char* kHelp =
    "Usage: products_bench [--threads N] [--rounds N] [--family F] [--only S]\n"
    "\n"
    "Measures every matrix product of a 35B-A3B layer, and the head, against\n"
    "this machine's read bandwidth and peak, with one thread and with N. "
    "Takes\n"
    "3.6 GB.\n"
    "\n"
    "  --threads N  threads of the second measurement (default: all CPUs)\n"
    "  --rounds N   medians of so many rounds (default: 5)\n"
    "  --family F   fma or bf16dot (default: what the processor is given)\n"
    "  --only S     products whose name contains S\n"
    "  --help       this text\n";

struct Options {
  int threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int rounds = 5;
  std::optional<KernelFamily> family;
  std::string only;
};

double Seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::unique_ptr<Backend> MakeBackend(const Options& options, int threads) {
  CpuBackendConfig config;
  config.threads = threads;
  config.family = options.family;
  auto backend = CreateCpuBackend(config);
  if (backend.ok()) return *std::move(backend);
  std::fprintf(stderr, "products_bench: %s\n",
               backend.status().ToString().c_str());
  std::exit(1);
}

ThreadPoolConfig PoolConfig(int threads) {
  ThreadPoolConfig config;
  config.threads = threads;
  return config;
}

// What this machine can do with some threads.
class Limits {
 public:
  Limits(int threads, bool bf16_dot, const PackedWeight& memory)
      : pool_(PoolConfig(threads)),
        flops_(bf16_dot ? loops_.bf16_dot : loops_.f32_fma),
        memory_(memory) {}

  // Bytes a second, from weights that were read long ago.
  double Read() {
    const int64_t parts = pool_.threads();
    const auto* data = static_cast<const char*>(memory_.storage.data());
    const int64_t turns = memory_.storage.bytes() / kReadBytes;
    const char* begin = data + turn_++ % turns * kReadBytes;
    const double seconds = Seconds([&] {
      pool_.ParallelFor(parts, [&](int64_t part) {
        const int64_t bytes = kReadBytes / parts / 64 * 64;
        loops_.read(begin + part * bytes, bytes);
      });
    });
    return static_cast<double>(kReadBytes) / seconds;
  }

  // Operations a second.
  double Peak() {
    std::vector<double> done(pool_.threads());
    const double seconds = Seconds([&] {
      pool_.ParallelFor(pool_.threads(),
                        [&](int64_t i) { done[i] = flops_(); });
    });
    double sum = 0;
    for (const double d : done) sum += d;
    return sum / seconds;
  }

 private:
  ThreadPool pool_;
  const RoofLoops loops_ = CpuRoofLoops();
  double (*const flops_)();
  const PackedWeight& memory_;
  int64_t turn_ = 0;
};

// Of one product, a value a round.
struct Figures {
  std::vector<double> seconds, share;
  std::vector<double> of_read, of_peak;
};

class Measurement {
 public:
  Measurement(Backend& backend, const ProductCase& product)
      : ops_(backend.ops()), product_(product) {
    const double once = Seconds([&] { product_.run(ops_, turn_++); });
    runs_ = std::max<int64_t>(1, static_cast<int64_t>(kTurnSeconds / once));
  }

  void Round(Limits& limits) {
    // A limit before and one after, and the product between them.
    const double read = limits.Read();
    const double peak = limits.Peak();
    const double seconds = Seconds([&] {
                             for (int64_t i = 0; i < runs_; ++i)
                               product_.run(ops_, turn_++);
                           }) /
                           static_cast<double>(runs_);
    const double of_read =
        product_.bytes / ((read + limits.Read()) / 2) / seconds;
    const double of_peak =
        product_.flops / ((peak + limits.Peak()) / 2) / seconds;
    figures_.seconds.push_back(seconds);
    figures_.of_read.push_back(of_read);
    figures_.of_peak.push_back(of_peak);
    figures_.share.push_back(std::max(of_read, of_peak));
  }

  void Report() const {
    const double seconds = Median(figures_.seconds);
    std::printf(
        "  %-20s %4ld %10.1f us %7.1f GB/s %.2f %8.1f GFLOP/s %.2f   "
        "%.2f\n",
        product_.name.c_str(), static_cast<long>(product_.tokens),
        seconds * 1e6, product_.bytes / seconds / 1e9, Median(figures_.of_read),
        product_.flops / seconds / 1e9, Median(figures_.of_peak),
        Median(figures_.share));
  }

 private:
  Ops& ops_;
  const ProductCase& product_;
  int64_t runs_ = 1;
  int64_t turn_ = 0;
  Figures figures_;
};

void Measure(const Options& options, int threads, const ProductBank& bank) {
  const std::unique_ptr<Backend> backend = MakeBackend(options, threads);
  const std::string family = backend->kernel_family();
  Limits limits(threads, family.rfind("bf16dot", 0) == 0, bank.largest());
  std::vector<Measurement> all;
  for (const ProductCase& product : bank.cases()) {
    if (product.name.find(options.only) != std::string::npos)
      all.emplace_back(*backend, product);
  }
  std::vector<double> read, peak;
  for (int i = 0; i < options.rounds; ++i) {
    read.push_back(limits.Read());
    peak.push_back(limits.Peak());
    for (Measurement& one : all) one.Round(limits);
  }
  std::printf(
      "%s, %s, %d thread%s: reads %.1f GB/s, peak %.1f GFLOP/s\n"
      "  %-20s tokens      time          read, of all       "
      "operations, of all   of the roof\n",
      backend->instruction_set().c_str(), family.c_str(), threads,
      threads == 1 ? "" : "s", Median(read) / 1e9, Median(peak) / 1e9,
      "product");
  for (const Measurement& one : all) one.Report();
}

[[noreturn]] void Refuse(const std::string& why) {
  std::fprintf(stderr, "products_bench: %s\n\n%s", why.c_str(), kHelp);
  std::exit(2);
}

int ParseCount(const std::string& flag, const char* text, int limit) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 1 || value > limit)
    Refuse(flag + " is \"" + text + "\"; must be 1.." + std::to_string(limit));
  return static_cast<int>(value);
}

KernelFamily ParseFamily(const std::string& text) {
  if (text == "fma") return KernelFamily::kFma;
  if (text == "bf16dot") return KernelFamily::kBf16Dot;
  Refuse("--family is \"" + text + "\"; must be fma or bf16dot");
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    }
    if (i + 1 == argc) Refuse(flag + " is unknown or lacks its value");
    const char* value = argv[++i];
    if (flag == "--threads")
      options.threads = ParseCount(flag, value, kMaxCpuThreads);
    else if (flag == "--rounds")
      options.rounds = ParseCount(flag, value, kMaxRounds);
    else if (flag == "--family")
      options.family = ParseFamily(value);
    else if (flag == "--only")
      options.only = value;
    else
      Refuse("unknown flag " + flag);
  }
  return options;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  const CpuFeatures cpu = DetectCpu();
  std::printf("%s (%s, family %d, model %d), medians of %d rounds\n",
              cpu.name.c_str(), cpu.vendor.c_str(), cpu.family, cpu.model,
              options.rounds);
  const std::unique_ptr<Backend> owner = MakeBackend(options, 1);
  const ProductBank bank(*owner);
  Measure(options, 1, bank);
  if (options.threads > 1) Measure(options, options.threads, bank);
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
