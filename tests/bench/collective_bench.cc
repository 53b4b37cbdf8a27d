// Time of one all-reduce between processes through shared memory, as rank 0
// sees it: collective_bench [ranks]. Each rank is pinned to a CPU of its own
// where there are enough; on a busy machine only the lower percentiles tell.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/check.h"
#include "worker/collective/shm.h"

namespace phalanx {
namespace {

constexpr int64_t kBytes[] = {4 << 10, 8 << 10, 64 << 10, 1 << 20};
constexpr int kWarmUps = 200;

int Calls(int64_t bytes) { return bytes <= (64 << 10) ? 10'000 : 300; }

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

template <typename Out>
void Measure(Collective& group, int64_t bytes, DType dtype) {
  const int64_t count = bytes / int64_t{sizeof(float)};
  std::vector<float> partial(count, 1.0f);
  std::vector<Out> out(count);
  std::vector<double> microseconds;
  for (int i = 0; i < kWarmUps + Calls(bytes); ++i) {
    const auto start = std::chrono::steady_clock::now();
    group.AllReduceSum(MakeTensor(partial.data(), DType::kF32, 1, count),
                       MakeTensor(out.data(), dtype, 1, count));
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    if (i >= kWarmUps) microseconds.push_back(taken.count());
  }
  CHECK(group.status().ok());
  if (group.rank() != 0) return;
  std::sort(microseconds.begin(), microseconds.end());
  const auto at = [&](double part) {
    return microseconds[static_cast<size_t>(part * (microseconds.size() - 1))];
  };
  std::printf(
      "all_reduce ranks=%d bytes=%-8lld to=%s p10=%.2f p50=%.2f p99=%.2f us\n",
      group.size(), static_cast<long long>(bytes),
      dtype == DType::kF32 ? "f32 " : "bf16", at(0.1), at(0.5), at(0.99));
}

int Run(int size) {
  const int cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  ShmConfig config{.name = NewShmName(1),
                   .size = size,
                   .epoch = 1,
                   .spin = size <= cpus,
                   .timeout_seconds = 10};
  for (int rank = 1; rank < size && config.rank == 0; ++rank)
    if (fork() == 0) config.rank = rank;
  if (config.spin) PinTo(config.rank);
  auto group = JoinShmGroup(config);
  if (!group.ok()) {
    std::fprintf(stderr, "%s\n", std::string(group.status().message()).c_str());
    return 1;
  }
  for (const int64_t bytes : kBytes) {
    Measure<float>(**group, bytes, DType::kF32);
    Measure<uint16_t>(**group, bytes, DType::kBf16);
  }
  while (config.rank == 0 && wait(nullptr) > 0) {
  }
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  return phalanx::Run(size);
}
