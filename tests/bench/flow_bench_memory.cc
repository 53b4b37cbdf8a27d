#include "tests/bench/flow_bench_memory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "kernels/bf16.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_roof_loops.h"
#include "tests/bench/flow_bench_update.h"

namespace phalanx {
namespace {

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "flow_bench: %s\n", message.c_str());
  std::exit(1);
}

ThreadPoolConfig PoolConfig(int threads) {
  ThreadPoolConfig config;
  config.threads = threads;
  return config;
}

}  // namespace

double Seconds(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

Memory::Memory(int threads) : pool_(PoolConfig(threads)) {
  CpuBackendConfig config;
  config.threads = threads;
  auto backend = CreateCpuBackend(config);
  if (!backend.ok()) Fail(backend.status().ToString());
  backend_ = *std::move(backend);
  bank_ = Room(kBankBytes);
  std::memset(bank_, 1, kBankBytes);  // Else all pages are one page of zeros.
}

void* Memory::Room(int64_t bytes) {
  auto buffer =
      backend_->Allocate(bytes, MemoryComponent::kActivations, "flow_bench");
  if (!buffer.ok()) Fail(buffer.status().ToString());
  buffers_.push_back(*std::move(buffer));
  return buffers_.back().data();
}

Tensor Memory::Ints(const std::vector<int32_t>& values) {
  Tensor t = Make(DType::kI32, static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), t.row<int32_t>(0));
  return t;
}

void Memory::Fill(const Tensor& t) {
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
    std::memcpy(data + i * size, data, std::min(some, t.elements() - i) * size);
}

// Bytes a second of `touch` on every thread's stretch of the bank, of which
// only one part in `parts` is touched, so often.
double Memory::Rate(const std::function<void(char*, int64_t)>& touch,
                    double passes, int64_t parts) {
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

double Memory::Peak(double (*flops)()) {
  if (flops == nullptr) return 0;
  std::vector<double> done(pool_.threads());
  const double seconds = Seconds([&] {
    pool_.ParallelFor(pool_.threads(), [&](int64_t i) { done[i] = flops(); });
  });
  double sum = 0;
  for (const double d : done) sum += d;
  return sum / seconds;
}

Limits Memory::Measure() {
  const RoofLoops loops = CpuRoofLoops();
  Limits limits;
  limits.read = Rate(loops.read, 1, 1);
  limits.update = Rate(UpdateMemory, 2, 1);
  limits.cached = Rate(UpdateMemory, 2, 4096);
  // A neighbour on the same cores only ever takes away.
  limits.fma = std::max(Peak(loops.f32_fma), Peak(loops.f32_fma));
  limits.bf16_dot = std::max(Peak(loops.bf16_dot), Peak(loops.bf16_dot));
  limits.int8_dot = std::max(Peak(loops.int8_dot), Peak(loops.int8_dot));
  return limits;
}

}  // namespace phalanx
