// Time of the calls of a collective between processes through shared memory, as
// rank 0 sees them: collective_bench [ranks] [slot KiB]. Each rank is pinned to
// a CPU of its own where there are enough. Beside each, in brackets, how long a
// cache line took to the other CPU and back just before and just after: virtual
// machines move, and a small call is a handful of such trips. First, what 8 KiB
// take to the other CPU with nothing else to do; at the end memcpy by all ranks
// at once. On a busy machine only the lower percentiles tell.

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "common/check.h"
#include "worker/collective/shm.h"
#include "worker/collective/timed_collective.h"

namespace phalanx {
namespace {

constexpr int kWarmUps = 1000;
// A row of the 35B's hidden size, and of its logits.
constexpr int64_t kHidden = 2048;
constexpr int64_t kVocabulary = 248'320;
constexpr int64_t kPlanBytes = 512;

int Calls(int64_t bytes) { return bytes <= (64 << 10) ? 10'000 : 300; }

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

double Microseconds() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Sorted.
double At(const std::vector<double>& values, double part) {
  return values[static_cast<size_t>(part *
                                    static_cast<double>(values.size() - 1))];
}

// Two lines that the processes of ranks 0 and 1 throw to each other, and a load
// that whoever has the ball has read and written.
struct Ball {
  alignas(128) std::atomic<uint32_t> there;
  alignas(128) std::atomic<uint32_t> back;
  alignas(128) std::array<char, kHidden * sizeof(float)> load;
};

// One of the two.
class Thrower {
 public:
  Thrower(Ball& ball, int rank) : ball_(ball), rank_(rank) {}

  // Microseconds for a line, and so many bytes of the load, to the other CPU
  // and back, the median of batches. Both throwers call it at the same time.
  double RoundTrip(size_t bytes) {
    constexpr int kRounds = 50;
    std::vector<double> batches;
    for (int batch = 0; batch < 100; ++batch) {
      const double start = Microseconds();
      for (int i = 0; i < kRounds; ++i) Throw(bytes);
      batches.push_back((Microseconds() - start) / kRounds);
    }
    std::sort(batches.begin(), batches.end());
    return At(batches, 0.5);
  }

 private:
  void Throw(size_t bytes) {
    ++round_;
    if (rank_ == 0) {
      std::memset(ball_.load.data(), static_cast<int>(round_), bytes);
      ball_.there.store(round_, std::memory_order_release);
      while (ball_.back.load(std::memory_order_acquire) != round_) {
      }
      Read(bytes);
    } else {
      while (ball_.there.load(std::memory_order_acquire) != round_) {
      }
      Read(bytes);
      std::memset(ball_.load.data(), static_cast<int>(round_), bytes);
      ball_.back.store(round_, std::memory_order_release);
    }
  }

  void Read(size_t bytes) {
    std::memcpy(read_.data(), ball_.load.data(), bytes);
    asm volatile("" : : "r"(read_.data()) : "memory");
  }

  Ball& ball_;
  const int rank_;
  std::array<char, sizeof(Ball::load)> read_{};
  uint32_t round_ = 0;
};

// Times the calls of a group, and rank 0 prints.
class Bench {
 public:
  // thrower: null where ranks share CPUs, and for ranks above 1.
  Bench(Collective& group, Thrower* thrower)
      : group_(group), thrower_(thrower) {}

  template <typename Call>
  void Time(const std::string& name, int64_t bytes, const Call& call) {
    const double before = RoundTripNow();
    for (int i = 0; i < kWarmUps; ++i) call();
    std::vector<double> us;
    for (int i = 0; i < Calls(bytes); ++i) {
      const double start = Microseconds();
      call();
      us.push_back(Microseconds() - start);
    }
    CHECK(group_.status().ok());
    const double after = RoundTripNow();
    if (group_.rank() != 0) return;
    std::sort(us.begin(), us.end());
    std::printf("%-33s p10 %8.2f p50 %8.2f p99 %8.2f us [%.3f %.3f]",
                name.c_str(), At(us, 0.1), At(us, 0.5), At(us, 0.99), before,
                after);
    if (bytes > (64 << 10))
      std::printf(" %.1f GB/s", 1e-3 * static_cast<double>(bytes) / At(us, .5));
    else if (before > 0)
      std::printf(" %.1f round trips", At(us, 0.5) / std::max(before, after));
    std::printf("\n");
  }

  template <typename Out>
  void AllReduce(const std::string& name, int64_t count, DType dtype) {
    std::vector<float> partial(count, 1.0f);
    std::vector<Out> out(count);
    Time(
        name + (dtype == DType::kF32 ? " to f32" : " to bf16"), 4 * count, [&] {
          group_.AllReduceSum(MakeTensor(partial.data(), DType::kF32, 1, count),
                              MakeTensor(out.data(), dtype, 1, count));
        });
  }

  void AllGather(const std::string& name, int64_t count, DType dtype) {
    const int64_t bytes = count * ElementBytes(dtype);
    std::vector<char> mine(bytes), all(group_.size() * bytes);
    Time(name, bytes * group_.size(), [&] {
      group_.AllGather(MakeTensor(mine.data(), dtype, count),
                       MakeTensor(all.data(), dtype, group_.size(), count));
    });
  }

  // All ranks meet between two broadcasts, as they do between two plans.
  void Broadcast(const std::string& name) {
    std::string plan(kPlanBytes, 'p');
    Time(name, kPlanBytes, [&] {
      CHECK(group_.Broadcast(plan).ok());
      CHECK(group_.Barrier().ok());
    });
  }

  // What no exchange of a token's sums can do without: its lines, one way.
  void HandOver() {
    CHECK(group_.Barrier().ok());
    if (thrower_ != nullptr) {
      const double us = thrower_->RoundTrip(sizeof(Ball::load)) / 2;
      if (group_.rank() == 0)
        std::printf("%-33s                p50 %8.2f us\n",
                    "8 KiB to the other CPU, one way", us);
    }
    CHECK(group_.Barrier().ok());
  }

  // Of each rank's own memory, by all at once.
  void Memcpy(int64_t bytes) {
    std::vector<char> from(bytes), to(bytes);
    Time("memcpy " + std::to_string(bytes >> 10) + " KiB a rank", bytes, [&] {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");
    });
  }

 private:
  double RoundTripNow() {
    CHECK(group_.Barrier().ok());
    const double us = thrower_ == nullptr ? 0 : thrower_->RoundTrip(0);
    CHECK(group_.Barrier().ok());
    return us;
  }

  Collective& group_;
  Thrower* const thrower_;
};

class Nobody final : public CollectiveObserver {
 public:
  void OnCall(CollectiveOp, double, int64_t) override {}
  void OnSkew(double) override {}
  void OnFailure(CollectiveOp, CollectiveFailure) override {}
};

void TimeAll(Bench& bench) {
  bench.HandOver();
  for (const int64_t kib : {4, 8, 64, 1024, 4096}) {
    const std::string name = "all_reduce " + std::to_string(kib) + " KiB";
    bench.AllReduce<float>(name, kib * 256, DType::kF32);
    bench.AllReduce<uint16_t>(name, kib * 256, DType::kBf16);
  }
}

void TimeOthers(Bench& bench, int size) {
  bench.AllGather("all_gather embedding row, bf16", kHidden, DType::kBf16);
  bench.AllGather("all_gather logits, f32", kVocabulary / size, DType::kF32);
  bench.Broadcast("broadcast plan + barrier");
  bench.Memcpy(1 << 20);
  bench.Memcpy(4 << 20);
}

int Run(int size, int64_t slot_bytes) {
  const int cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  ShmConfig config{.name = NewShmName(1),
                   .size = size,
                   .epoch = 1,
                   .slot_bytes = slot_bytes,
                   .spin = size <= cpus,
                   .timeout_seconds = 10};
  void* const shared = mmap(nullptr, sizeof(Ball), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  Ball& ball = *new (shared) Ball{};
  for (int rank = 1; rank < size && config.rank == 0; ++rank)
    if (fork() == 0) config.rank = rank;
  if (config.spin) PinTo(config.rank);
  auto group = JoinShmGroup(config);
  if (!group.ok()) {
    std::fprintf(stderr, "%s\n", std::string(group.status().message()).c_str());
    return 1;
  }
  Thrower own(ball, config.rank);
  Thrower* const thrower = config.spin && config.rank < 2 ? &own : nullptr;
  Bench bench(**group, thrower);
  TimeAll(bench);
  TimeOthers(bench, size);
  Nobody observer;
  const MonotonicClock clock;
  TimedCollective timed(*std::move(group), observer, clock);
  Bench timed_bench(timed, thrower);
  timed_bench.AllReduce<uint16_t>("timed all_reduce 8 KiB", kHidden,
                                  DType::kBf16);
  while (config.rank == 0 && wait(nullptr) > 0) {
  }
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  const int64_t slot_kib = argc > 2 ? std::atoi(argv[2]) : 1024;
  return phalanx::Run(size, slot_kib << 10);
}
