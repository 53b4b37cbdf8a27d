// Everything of a step that is not weights, at the sizes of Qwen3.5-35B-A3B:
// each op beside its own limit, and all of them beside what the weights cost at
// the roof. States and keys come from memory that no cache holds, layer by
// layer as a model walks them; activations are warm, as the op before leaves
// them. Limits are measured in the same round as the ops held against them.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "kernels/bf16.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"
#include "tests/bench/flow_bench_roofs.h"
#include "tests/bench/kernel_bench_roofs.h"

namespace phalanx {
namespace {

// The geometry.
constexpr int64_t kHidden = 2048;
constexpr int64_t kQueryHeads = 16, kKvHeads = 2, kHeadSize = 256;
constexpr int64_t kRotaryPairs = 32;
constexpr int64_t kKeyHeads = 16, kValueHeads = 32, kDeltaSize = 128;
constexpr int64_t kChannels =
    (2 * kKeyHeads + kValueHeads) * kDeltaSize;  // 8192
constexpr int64_t kConvWidth = 4;
constexpr int64_t kExperts = 256, kExpertsPerToken = 8;
constexpr int kLayers = 40, kDeltaLayers = 30, kAttentionLayers = 10;

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

// No cache holds as much.
constexpr int64_t kBankBytes = int64_t{512} << 20;
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

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "flow_bench: %s\n", message.c_str());
  std::exit(1);
}

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

// What all threads do together in a second.
struct Limits {
  double read;    // Bytes from memory.
  double update;  // Bytes in and out of memory, in place, both counted.
  double cached;  // The same in L2.
  double fma, bf16_dot, int8_dot;  // Operations, two a multiply-add.
};

// A step's shape.
struct Case {
  int64_t tokens;
  int64_t context;
  bool prefill;

  int64_t sequences() const { return prefill ? 1 : tokens; }
  int64_t rows() const { return prefill ? tokens : 1; }
  int64_t positions() const { return context + rows(); }
  int64_t blocks() const {
    return (positions() + kKvBlockTokens - 1) / kKvBlockTokens;
  }
};

// One op of a step.
struct Op {
  const char* name;
  int calls;  // A step of the whole model.
  // What a call must do: bytes read from memory, read and written in memory,
  // moved in cache; f32 multiply-adds and multiplications, two each.
  double read, update, cached, flops;
  std::function<void(int64_t layer)> run;

  double LimitSeconds(const Limits& l) const {
    return std::max(read / l.read + update / l.update + cached / l.cached,
                    flops / l.fma);
  }
};

class Memory {
 public:
  explicit Memory(int threads) : pool_(PoolConfig(threads)) {
    CpuBackendConfig config;
    config.threads = threads;
    auto backend = CreateCpuBackend(config);
    if (!backend.ok()) Fail(backend.status().ToString());
    backend_ = *std::move(backend);
    bank_ = Room(kBankBytes);
    std::memset(bank_, 1, kBankBytes);  // Else all pages are one page of zeros.
  }

  Ops& ops() { return backend_->ops(); }
  const Backend& backend() const { return *backend_; }

  void* Room(int64_t bytes) {
    auto buffer =
        backend_->Allocate(bytes, MemoryComponent::kActivations, "flow_bench");
    if (!buffer.ok()) Fail(buffer.status().ToString());
    buffers_.push_back(*std::move(buffer));
    return buffers_.back().data();
  }

  // A tensor of numbers of order 1.
  template <typename... Dims>
  Tensor Make(DType type, Dims... dims) {
    Tensor t = MakeTensor(nullptr, type, dims...);
    t.data = Room(t.elements() * ElementBytes(type));
    Fill(t);
    return t;
  }

  Tensor Ints(const std::vector<int32_t>& values) {
    Tensor t = Make(DType::kI32, static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), t.row<int32_t>(0));
    return t;
  }

  Limits Measure() {
    Limits limits;
    limits.read = Rate([](char* p, int64_t n) { ReadMemory(p, n); }, 1, 1);
    limits.update = Rate(UpdateMemory, 2, 1);
    limits.cached = Rate(UpdateMemory, 2, 4096);
    limits.fma = Peak(FmaFlops);
    limits.bf16_dot = Peak(Bf16DotFlops);
    limits.int8_dot = Peak(Int8DotOps);
    return limits;
  }

 private:
  static ThreadPoolConfig PoolConfig(int threads) {
    ThreadPoolConfig config;
    config.threads = threads;
    return config;
  }

  static void Fill(const Tensor& t) {
    if (t.dtype == DType::kI32) return;
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    const int64_t some = std::min<int64_t>(t.elements(), 65521);
    for (int64_t i = 0; i < some; ++i) {
      const float v = uniform(random);
      if (t.dtype == DType::kF32) t.row<float>(0)[i] = v;
      if (t.dtype == DType::kBf16) t.row<uint16_t>(0)[i] = F32ToBf16(v);
    }
    char* data = t.row<char>(0);
    const int64_t size = ElementBytes(t.dtype);
    for (int64_t i = some; i < t.elements(); i += some)
      std::memcpy(data + i * size, data,
                  std::min(some, t.elements() - i) * size);
  }

  // Bytes a second of `touch` on every thread's stretch of the bank, of which
  // only one part in `parts` is touched, so often.
  double Rate(const std::function<void(char*, int64_t)>& touch, double passes,
              int64_t parts) {
    const int64_t threads = pool_.threads();
    const int64_t bytes = kBankBytes / threads / parts / 256 * 256;
    const double seconds = Seconds([&] {
      pool_.ParallelFor(threads, [&](int64_t i) {
        char* stretch = static_cast<char*>(bank_) + i * bytes;
        for (int64_t turn = 0; turn < std::min<int64_t>(parts, 2048); ++turn)
          touch(stretch, bytes);
      });
    });
    return passes * static_cast<double>(bytes * threads) *
           static_cast<double>(std::min<int64_t>(parts, 2048)) / seconds;
  }

  double Peak(double (*flops)()) {
    std::vector<double> done(pool_.threads());
    const double seconds = Seconds([&] {
      pool_.ParallelFor(pool_.threads(), [&](int64_t i) { done[i] = flops(); });
    });
    double sum = 0;
    for (const double d : done) sum += d;
    return sum / seconds;
  }

  ThreadPool pool_;
  std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
  void* bank_;
};

// The ops of a case and the memory they work on.
class Flow {
 public:
  Flow(Memory& memory, const Case& shape)
      : m_(memory), case_(shape), T_(shape.tokens) {
    MakeSequences();
    AddDelta();
    AddAttention();
    AddRest();
  }

  const std::vector<Op>& ops() const { return ops_; }

 private:
  void MakeSequences() {
    const int64_t S = case_.sequences();
    std::vector<int32_t> first = {0}, slots, past, table;
    for (int64_t s = 0; s < S; ++s) {
      first.push_back(static_cast<int32_t>((s + 1) * case_.rows()));
      slots.push_back(static_cast<int32_t>(s));
      past.push_back(static_cast<int32_t>(case_.context));
      for (int64_t b = 0; b < case_.blocks(); ++b)
        table.push_back(static_cast<int32_t>(s * case_.blocks() + b));
    }
    sequences_ = {m_.Ints(first), m_.Ints(past), m_.Ints(slots),
                  m_.Ints(table)};
    Tensor& blocks = sequences_.block_table;
    blocks = MakeTensor(blocks.data, DType::kI32, S, case_.blocks());
  }

  // Layers' worth of `bytes`: more than a cache holds.
  static int64_t BankLayers(int64_t bytes) {
    return std::clamp<int64_t>(kBankBytes / bytes, 1, kLayers);
  }

  // Layer `layer` of a bank whose layers are rows [per_layer * layer ...].
  static Tensor Layer(Tensor bank, int64_t per_layer, int64_t layer) {
    return Rows(bank, layer % (bank.dims[0] / per_layer) * per_layer,
                per_layer);
  }

  void AddDelta() {
    const int64_t S = case_.sequences();
    const int64_t values = kValueHeads * kDeltaSize;
    const int64_t state_bytes = S * values * kDeltaSize * 4;
    const Tensor states = m_.Make(DType::kF32, BankLayers(state_bytes) * S,
                                  kValueHeads, kDeltaSize, kDeltaSize);
    const int64_t window = (kConvWidth - 1) * kChannels;
    const Tensor windows =
        m_.Make(DType::kBf16, kLayers * S, kConvWidth - 1, kChannels);
    const Tensor fused =
        m_.Make(DType::kBf16, T_, kChannels + values + 2 * kValueHeads);
    const auto [mixed, z, b, a] =
        SplitColumns<4>(fused, {kChannels, values, kValueHeads, kValueHeads});
    const Tensor taps = m_.Make(DType::kF32, kChannels, kConvWidth);
    const Tensor conv = m_.Make(DType::kF32, T_, kChannels);
    const Tensor spare = m_.Make(DType::kF32, T_, kChannels);
    const int64_t keys = kKeyHeads * kDeltaSize;
    const auto [q, k, v] = SplitColumns<3>(conv, {keys, keys, values});
    const Tensor rate = m_.Make(DType::kF32, kValueHeads);
    const Tensor g = m_.Make(DType::kF32, T_, kValueHeads);
    const Tensor beta = m_.Make(DType::kF32, T_, kValueHeads);
    const Tensor delta = m_.Make(DType::kF32, T_, values);
    const Tensor normed = m_.Make(DType::kBf16, T_, values);
    const Tensor w = m_.Make(DType::kF32, kDeltaSize);
    const double rows = static_cast<double>(T_);
    Ops& ops = m_.ops();
    Add({"ConvSilu", kDeltaLayers, 0, S * window * 2.0 * 2,
         rows * kChannels * (2 + 4) + kChannels * kConvWidth * 4.0,
         rows * kChannels * kConvWidth * 2, [=, this, &ops](int64_t i) {
           ops.ConvSilu(mixed, taps, sequences_, Layer(windows, S, i), spare);
         }});
    Add({"L2Norm", 2 * kDeltaLayers, 0, 0, rows * keys * 8, rows * keys * 4,
         [=, &ops](int64_t) {
           ops.L2Norm(Heads(q, kKeyHeads), 0.9f, Heads(q, kKeyHeads));
         }});
    ops.L2Norm(Heads(k, kKeyHeads), 1.0f, Heads(k, kKeyHeads));
    Add({"GdnGates", kDeltaLayers, 0, 0, rows * kValueHeads * 12,
         rows * kValueHeads * 100,
         [=, &ops](int64_t) { ops.GdnGates(a, b, rate, rate, g, beta); }});
    Add({"GatedDelta", kDeltaLayers, 0, 2.0 * state_bytes,
         rows * (kChannels + values) * 4, rows * values * kDeltaSize * 8,
         [=, this, &ops](int64_t i) {
           ops.GatedDelta(Heads(q, kKeyHeads), Heads(k, kKeyHeads),
                          Heads(v, kValueHeads), g, beta, sequences_,
                          Layer(states, S, i), Heads(delta, kValueHeads));
         }});
    Add({"GatedRmsNorm", kDeltaLayers, 0, 0, rows * values * 8,
         rows * values * 40, [=, &ops](int64_t) {
           ops.GatedRmsNorm(Heads(delta, kValueHeads), Heads(z, kValueHeads), w,
                            1e-6f, Heads(normed, kValueHeads));
         }});
  }

  void AddAttention() {
    const int64_t S = case_.sequences();
    const int64_t blocks = S * case_.blocks();
    const int64_t queries = kQueryHeads * kHeadSize;
    const int64_t pairs = kKvHeads * kHeadSize;
    const int64_t bytes = blocks * kKvBlockTokens * pairs * 2;
    const int64_t layers = BankLayers(2 * bytes);
    const Tensor keys = m_.Make(DType::kBf16, layers * blocks, kKvHeads,
                                kKvBlockTokens, kHeadSize);
    const Tensor values = m_.Make(DType::kBf16, layers * blocks, kKvHeads,
                                  kKvBlockTokens, kHeadSize);
    const Tensor fused = m_.Make(DType::kBf16, T_, 2 * queries + 2 * pairs);
    const auto [q, gate, k, v] =
        SplitColumns<4>(fused, {queries, queries, pairs, pairs});
    const Tensor out = m_.Make(DType::kF32, T_, queries);
    const Tensor gated = m_.Make(DType::kBf16, T_, queries);
    const Tensor w = m_.Make(DType::kF32, kHeadSize);
    const Tensor frequencies = m_.Make(DType::kF32, kRotaryPairs);
    std::vector<int32_t> at, place;
    for (int64_t t = 0; t < T_; ++t) {
      const int64_t position = case_.context + t % case_.rows();
      const int64_t first = t / case_.rows() * case_.blocks() * kKvBlockTokens;
      at.push_back(static_cast<int32_t>(position));
      place.push_back(static_cast<int32_t>(first + position));
    }
    const Tensor positions = m_.Ints(at), places = m_.Ints(place);
    const double rows = static_cast<double>(T_);
    Ops& ops = m_.ops();
    const Tensor heads = Heads(q, kQueryHeads), kv_heads = Heads(k, kKvHeads);
    Add({"RmsNorm q", kAttentionLayers, 0, 0, rows * queries * 4,
         rows * queries * 6,
         [=, &ops](int64_t) { ops.RmsNorm(heads, w, 1e-6f, heads); }});
    Add({"RmsNorm k", kAttentionLayers, 0, 0, rows * pairs * 4,
         rows * pairs * 6,
         [=, &ops](int64_t) { ops.RmsNorm(kv_heads, w, 1e-6f, kv_heads); }});
    Add({"Rope q, k", kAttentionLayers, 0, 0,
         rows * (kQueryHeads + kKvHeads) * kRotaryPairs * 8,
         rows * kRotaryPairs * (2 * 50 + (kQueryHeads + kKvHeads) * 8.0),
         [=, &ops](int64_t) {
           ops.Rope(positions, frequencies, heads);
           ops.Rope(positions, frequencies, kv_heads);
         }});
    Add({"StoreKv", kAttentionLayers, 0, rows * pairs * 8, rows * pairs * 4, 0,
         [=, &ops](int64_t i) {
           ops.StoreKv(kv_heads, Heads(v, kKvHeads), places,
                       Layer(keys, blocks, i), Layer(values, blocks, i));
         }});
    const double seen = static_cast<double>(case_.context) +
                        (static_cast<double>(case_.rows()) + 1) / 2;
    Add({"PagedAttention", kAttentionLayers,
         2.0 * static_cast<double>(S * case_.positions() * pairs * 2), 0,
         rows * queries * 6, rows * seen * queries * 4,
         [=, this, &ops](int64_t i) {
           ops.PagedAttention(heads, Layer(keys, blocks, i),
                              Layer(values, blocks, i), sequences_, 0.0625f,
                              Heads(out, kQueryHeads));
         }});
    Add({"MulSigmoid", kAttentionLayers, 0, 0, rows * queries * 8,
         rows * queries * 40,
         [=, &ops](int64_t) { ops.MulSigmoid(out, gate, gated); }});
  }

  void AddRest() {
    const Tensor h = m_.Make(DType::kBf16, T_, kHidden);
    const Tensor delta = m_.Make(DType::kBf16, T_, kHidden);
    const Tensor x = m_.Make(DType::kBf16, T_, kHidden);
    const Tensor partial = m_.Make(DType::kF32, T_, kHidden);
    const Tensor w = m_.Make(DType::kF32, kHidden);
    const Tensor logits = m_.Make(DType::kF32, T_, kExperts);
    const Routing routing = {
        .expert = m_.Make(DType::kI32, T_, kExpertsPerToken),
        .weight = m_.Make(DType::kF32, T_, kExpertsPerToken),
        .offsets = m_.Make(DType::kI32, kExperts + 1),
        .order = m_.Make(DType::kI32, T_ * kExpertsPerToken)};
    const double elements = static_cast<double>(T_ * kHidden);
    Ops& ops = m_.ops();
    Add({"RmsNorm h", 2 * kLayers, 0, 0, elements * 4, elements * 6,
         [=, &ops](int64_t) { ops.RmsNorm(h, w, 1e-6f, x); }});
    Add({"Round", 2 * kLayers, 0, 0, elements * 6, elements * 2,
         [=, &ops](int64_t) { ops.Round(partial, delta); }});
    Add({"Add", 2 * kLayers, 0, 0, elements * 6, elements * 2,
         [=, &ops](int64_t) { ops.Add(x, delta, h); }});
    Add({"Route", kLayers, 0, 0, static_cast<double>(T_) * kExperts * 4,
         static_cast<double>(T_) * kExperts * 40,
         [=, &ops](int64_t) { ops.Route(logits, true, routing); }});
  }

  void Add(Op op) { ops_.push_back(std::move(op)); }

  Memory& m_;
  const Case case_;
  const int64_t T_;
  Sequences sequences_;
  std::vector<Op> ops_;
};

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
