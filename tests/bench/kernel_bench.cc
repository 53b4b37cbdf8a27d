// Matrix products on this machine beside what the machine could do: a matrix-
// vector product against its read bandwidth, a 512-row product against its
// peak. What a shared machine gives changes from moment to moment, so a limit
// and what is held against it are measured in turns of a few milliseconds, and
// ratios are taken within a round.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "kernels/bf16.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/bench/kernel_bench_roofs.h"

namespace phalanx {
namespace {

constexpr int64_t kOutputs = 1024;
constexpr int64_t kColumns = 2048;
constexpr int64_t kManyRows = 512;
constexpr int64_t kMinBankBytes = int64_t{1} << 30;

// The floors of the product.
constexpr double kMinReadRatio = 0.7;
constexpr double kMinPeakRatio = 0.5;

// Matrices, and products of many rows, between two looks at the limit.
constexpr int64_t kTurnMatrices = 8;
constexpr int kPeakTurns = 6;

constexpr int kMaxRounds = 1000;

constexpr const char* kHelp =
    "Usage: kernel_bench [--format F] [--threads N] [--rounds N] [--check]\n"
    "\n"
    "Measures the CPU kernels' matrix products against this machine's read\n"
    "bandwidth and peak, with one thread and with N.\n"
    "\n"
    "  --format F   of the weights: bf16 (the default), int8, int4\n"
    "  --threads N  threads of the second measurement (default: all CPUs)\n"
    "  --rounds N   medians of so many rounds (default: 5)\n"
    "  --check      exit 1 if a product misses its floor: 0.7 of the read\n"
    "               bandwidth for one row, 0.5 of the peak for 512\n"
    "  --help       this text\n";

struct Options {
  WeightFormat format = WeightFormat::kBf16;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int rounds = 5;
  bool check = false;
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

int64_t BankBytes() {
  const int64_t l3 = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
  return std::max(kMinBankBytes, 4 * l3);
}

std::vector<uint16_t> RandomBf16(int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<uint16_t> values(count);
  for (uint16_t& v : values) v = F32ToBf16(uniform(random));
  return values;
}

// Work done and the time it took.
struct Tally {
  double work = 0;
  double seconds = 0;

  void Add(double more, const std::function<void()>& body) {
    work += more;
    seconds += Seconds(body);
  }
  // `flops` on every thread of the pool.
  void AddPeak(ThreadPool& pool, double (*flops)()) {
    std::vector<double> done(pool.threads());
    seconds += Seconds([&] {
      pool.ParallelFor(pool.threads(), [&](int64_t i) { done[i] = flops(); });
    });
    for (const double d : done) work += d;
  }
  double rate() const { return work / seconds; }
};

// What the rounds of one thread count gave.
struct Rates {
  std::vector<double> read, fma, bf16_dot, int8_dot, one_row, many_rows;
  std::vector<double> read_ratio, peak_ratio;
};

// Weights that no cache holds, and products of them.
class Bench {
 public:
  Bench(int threads, WeightFormat format)
      : format_(format), pool_(PoolConfig(threads)) {
    CpuBackendConfig config;
    config.threads = threads;
    auto backend = CreateCpuBackend(config);
    if (!backend.ok()) Fail(backend.status());
    backend_ = *std::move(backend);
    const WeightShape shape = {
        .rows = kOutputs, .cols = kColumns, .format = format};
    count_ = (BankBytes() + shape.share_bytes() - 1) / shape.share_bytes();
    std::vector<char> packed;
    for (int64_t i = 0; i < count_; ++i) {
      auto w = backend_->AllocateWeight(shape, MemoryComponent::kActivations,
                                        "bank");
      if (!w.ok()) Fail(w.status());
      bank_.push_back(*std::move(w));
      if (i == 0) {
        backend_->PackWeight(RandomBf16(kOutputs * kColumns).data(), 0,
                             bank_[0]);
        packed.resize(static_cast<size_t>(bank_[0].matrix_bytes));
        backend_->ReadPacked(bank_[0], 0, packed.data());
      } else {
        backend_->StorePacked(packed.data(), 0, bank_[i]);
      }
    }
    x_ = RandomBf16(kManyRows * kColumns);
    y_.resize(kManyRows * kOutputs);
  }

  const Backend& backend() const { return *backend_; }

  void Round(Rates& rates) {
    Tally read, one_row, fma, bf16_dot, int8_dot, many_rows;
    // The product follows half a bank behind, on memory long out of the cache.
    for (int64_t i = 0; i + kTurnMatrices <= count_; i += kTurnMatrices) {
      const double bytes =
          static_cast<double>(kTurnMatrices) * bank_[0].matrix_bytes;
      read.Add(bytes, [&] { Read(i); });
      one_row.Add(bytes, [&] { Multiply(1, i + count_ / 2, kTurnMatrices); });
    }
    Multiply(kManyRows, 0, 1);
    for (int i = 0; i < kPeakTurns; ++i) {
      fma.AddPeak(pool_, FmaFlops);
      bf16_dot.AddPeak(pool_, Bf16DotFlops);
      int8_dot.AddPeak(pool_, Int8DotOps);
      // As long as a peak, so that both are interrupted equally often.
      const int64_t products = pool_.threads();
      many_rows.Add(2.0 * kManyRows * kOutputs * kColumns * products,
                    [&] { Multiply(kManyRows, i * products, products); });
    }
    rates.read.push_back(read.rate());
    rates.one_row.push_back(one_row.rate());
    rates.fma.push_back(fma.rate());
    rates.bf16_dot.push_back(bf16_dot.rate());
    rates.int8_dot.push_back(int8_dot.rate());
    rates.many_rows.push_back(many_rows.rate());
    rates.read_ratio.push_back(one_row.rate() / read.rate());
    const double floats = std::max(fma.rate(), bf16_dot.rate());
    rates.peak_ratio.push_back(many_rows.rate() /
                               (format_ == WeightFormat::kBf16
                                    ? floats
                                    : std::max(floats, int8_dot.rate())));
  }

 private:
  [[noreturn]] static void Fail(const absl::Status& status) {
    std::fprintf(stderr, "kernel_bench: %s\n", status.ToString().c_str());
    std::exit(1);
  }

  static ThreadPoolConfig PoolConfig(int threads) {
    ThreadPoolConfig config;
    config.threads = threads;
    return config;
  }

  // Every thread reads a stretch of each matrix of a turn.
  void Read(int64_t first) {
    const int64_t parts = pool_.threads();
    pool_.ParallelFor(parts, [&](int64_t part) {
      for (int64_t i = 0; i < kTurnMatrices; ++i) {
        const PackedWeight& w = bank_[(first + i) % count_];
        const int64_t bytes = w.matrix_bytes / parts / 64 * 64;
        ReadMemory(static_cast<const char*>(w.storage.data()) + part * bytes,
                   bytes);
      }
    });
  }

  void Multiply(int64_t rows, int64_t first, int64_t products) {
    const Tensor x = MakeTensor(x_.data(), DType::kBf16, rows, kColumns);
    const Tensor y = MakeTensor(y_.data(), DType::kF32, rows, kOutputs);
    for (int64_t i = 0; i < products; ++i)
      backend_->ops().MatMul(x, bank_[(first + i) % count_], y);
  }

  const WeightFormat format_;
  ThreadPool pool_;
  std::unique_ptr<Backend> backend_;
  int64_t count_ = 0;
  std::vector<PackedWeight> bank_;
  std::vector<uint16_t> x_;
  std::vector<float> y_;
};

// Prints one thread count's figures; whether both floors are kept.
bool Report(int threads, const Rates& rates) {
  const double read_ratio = Median(rates.read_ratio);
  const double peak_ratio = Median(rates.peak_ratio);
  std::printf(
      "%d thread%s\n"
      "  read bandwidth         %8.1f GB/s\n"
      "  peak f32 fma           %8.1f GFLOP/s\n"
      "  peak bf16 dot          %8.1f GFLOP/s\n"
      "  peak int8 dot          %8.1f Gop/s\n"
      "  product, 1 row         %8.1f GB/s      %.2f of the bandwidth (>= "
      "%.1f)\n"
      "  product, %ld rows      %8.1f Gop/s     %.2f of the peak (>= %.1f)\n",
      threads, threads == 1 ? "" : "s", Median(rates.read) / 1e9,
      Median(rates.fma) / 1e9, Median(rates.bf16_dot) / 1e9,
      Median(rates.int8_dot) / 1e9, Median(rates.one_row) / 1e9, read_ratio,
      kMinReadRatio, static_cast<long>(kManyRows),
      Median(rates.many_rows) / 1e9, peak_ratio, kMinPeakRatio);
  return read_ratio >= kMinReadRatio && peak_ratio >= kMinPeakRatio;
}

bool Measure(const Options& options, int threads) {
  Bench bench(threads, options.format);
  Rates rates;
  for (int i = 0; i < options.rounds; ++i) bench.Round(rates);
  std::printf("%s, %s, %s: ", bench.backend().instruction_set().c_str(),
              bench.backend().kernel_family().c_str(),
              WeightFormatName(options.format));
  return Report(threads, rates);
}

int ParseCount(const char* flag, const char* text, int limit) {
  char* end = nullptr;
  const long value = text == nullptr ? 0 : std::strtol(text, &end, 10);
  if (text == nullptr || *end != '\0' || value < 1 || value > limit) {
    std::fprintf(stderr, "kernel_bench: %s is \"%s\"; must be 1..%d\n", flag,
                 text == nullptr ? "" : text, limit);
    std::exit(2);
  }
  return static_cast<int>(value);
}

WeightFormat ParseFormat(const char* text) {
  for (int i = 0; text != nullptr && i < kWeightFormats; ++i) {
    const auto format = static_cast<WeightFormat>(i);
    if (std::strcmp(text, WeightFormatName(format)) == 0) return format;
  }
  std::fprintf(stderr,
               "kernel_bench: --format is \"%s\"; must be bf16, int8 or int4\n",
               text == nullptr ? "" : text);
  std::exit(2);
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  options.threads = std::max(1, options.threads);
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (flag == "--help") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    } else if (flag == "--check") {
      options.check = true;
    } else if (flag == "--format") {
      options.format = ParseFormat(value);
      ++i;
    } else if (flag == "--threads") {
      options.threads = ParseCount("--threads", value, kMaxCpuThreads);
      ++i;
    } else if (flag == "--rounds") {
      options.rounds = ParseCount("--rounds", value, kMaxRounds);
      ++i;
    } else {
      std::fprintf(stderr, "kernel_bench: unknown flag %s\n\n%s", argv[i],
                   kHelp);
      std::exit(2);
    }
  }
  return options;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  const CpuFeatures cpu = DetectCpu();
  std::printf(
      "%s (%s, family %d, model %d); %.2f GiB of weights, medians of %d\n",
      cpu.name.c_str(), cpu.vendor.c_str(), cpu.family, cpu.model,
      static_cast<double>(BankBytes()) / (1 << 30), options.rounds);
  bool kept = Measure(options, 1);
  if (options.threads > 1) kept = Measure(options, options.threads) && kept;
  if (options.check && !kept) {
    std::fprintf(stderr, "kernel_bench: a product misses its floor\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
