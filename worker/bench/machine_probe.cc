#include "worker/bench/machine_probe.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "common/check.h"
#include "common/clock.h"
#include "common/units.h"

namespace phalanx {
namespace {

constexpr int64_t kLeastSetBytes = int64_t{256} << 20;
constexpr int64_t kPage = int64_t{2} << 20;

constexpr int kLooks = 3;
constexpr int kPingPongBatches = 9;
constexpr int kPingPongTrips = 500;

int64_t SetBytes(const ProbeConfig& config) {
  const int64_t threads = std::ssize(config.cpus);
  CHECK(threads > 0);
  return RoundUp(std::max(kLeastSetBytes, 4 * config.cache_bytes + kPage),
                 threads * kPage);
}

void Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// Runs work(i) on a thread of each of the first `threads` CPUs, which begin
// together; how much they did in a second, all in all, until the last one's
// end.
double RateOn(const std::vector<int>& cpus, int threads,
              const std::function<double(int)>& work) {
  const MonotonicClock clock;
  std::atomic<int> waiting = threads;
  std::vector<double> begin(threads), end(threads), done(threads);
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) {
    team.emplace_back([&, i] {
      Pin(cpus[i]);
      waiting.fetch_sub(1);
      while (waiting.load() > 0) std::this_thread::yield();
      begin[i] = clock.now_seconds();
      done[i] = work(i);
      end[i] = clock.now_seconds();
    });
  }
  for (std::thread& thread : team) thread.join();
  double sum = 0;
  for (const double d : done) sum += d;
  return sum / (*std::max_element(end.begin(), end.end()) -
                *std::min_element(begin.begin(), begin.end()));
}

// The best of some: a roof is what the machine does when nothing interrupts it.
double BestOf(const std::function<double()>& rate) {
  double best = 0;
  for (int i = 0; i < kLooks; ++i) best = std::max(best, rate());
  return best;
}

// A line of its own for the flag that two cores pass to and fro.
struct alignas(128) Ball {
  std::atomic<uint32_t> turn = 0;
};

}  // namespace

MachineProbe::MachineProbe(ProbeConfig config)
    : config_(std::move(config)),
      set_bytes_(SetBytes(config_)),
      set_(static_cast<char*>(std::aligned_alloc(kPage, set_bytes_)),
           &std::free) {
  CHECK(set_ != nullptr);
  const int threads = static_cast<int>(config_.cpus.size());
  const int64_t part = set_bytes_ / threads;
  RateOn(config_.cpus, threads, [&](int i) {
    std::memset(set_.get() + i * part, 1, part);
    return 0.0;
  });
}

MachineRoofs MachineProbe::Measure() {
  return {.one = MeasureOn(1),
          .all = MeasureOn(static_cast<int>(config_.cpus.size())),
          .ping_pong_seconds = PingPongSeconds()};
}

Roofs MachineProbe::MeasureOn(int threads) {
  return {.read = ReadOn(threads),
          .f32_fma = PeakOn(threads, config_.loops.f32_fma),
          .bf16_dot = PeakOn(threads, config_.loops.bf16_dot),
          .int8_dot = PeakOn(threads, config_.loops.int8_dot)};
}

Roofs MachineProbe::MeasureAll(Peak peak) {
  const int threads = static_cast<int>(config_.cpus.size());
  Roofs roofs;
  roofs.read = ReadOn(threads);
  if (peak == Peak::kF32 || peak == Peak::kBf16)
    roofs.f32_fma = PeakOn(threads, config_.loops.f32_fma);
  if (peak == Peak::kBf16)
    roofs.bf16_dot = PeakOn(threads, config_.loops.bf16_dot);
  if (peak == Peak::kInt8)
    roofs.int8_dot = PeakOn(threads, config_.loops.int8_dot);
  return roofs;
}

double MachineProbe::ReadOn(int threads) {
  const int64_t part = set_bytes_ / threads / 64 * 64;
  return BestOf([&] {
    return RateOn(config_.cpus, threads, [&](int i) {
      config_.loops.read(set_.get() + i * part, part);
      return static_cast<double>(part);
    });
  });
}

double MachineProbe::PeakOn(int threads, double (*loop)()) {
  if (loop == nullptr) return 0;
  return BestOf([&] {
    return RateOn(config_.cpus, threads, [&](int) { return loop(); });
  });
}

// The least of some batches: what disturbs only adds.
double MachineProbe::PingPongSeconds() {
  if (config_.cpus.size() < 2) return 0;
  Ball ball;
  const MonotonicClock clock;
  double least = 1;
  constexpr uint32_t kTurns = 2 * kPingPongBatches * kPingPongTrips;
  RateOn(config_.cpus, 2, [&](int side) {
    double began = clock.now_seconds();
    for (uint32_t turn = side; turn < kTurns; turn += 2) {
      // Yields at last, since the other side may have lost its core.
      for (int i = 0; ball.turn.load(std::memory_order_acquire) != turn; ++i)
        if (i > 100000) std::this_thread::yield();
      ball.turn.store(turn + 1, std::memory_order_release);
      if (side == 0 && (turn / 2 + 1) % kPingPongTrips == 0) {
        const double now = clock.now_seconds();
        least = std::min(least, (now - began) / kPingPongTrips);
        began = now;
      }
    }
    return 0.0;
  });
  return least;
}

}  // namespace phalanx
