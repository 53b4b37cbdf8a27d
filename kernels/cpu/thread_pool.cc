#include "kernels/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <xmmintrin.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/check.h"

namespace phalanx {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr int kPausesPerClockRead = 16;

// A ticket is the loop's number and how many indices are still to hand out.
constexpr int kLeftBits = 32;
constexpr uint64_t kLeftMask = (uint64_t{1} << kLeftBits) - 1;

constexpr unsigned kFlushToZero = 0x8000;
constexpr unsigned kDenormalsAreZero = 0x0040;

void FlushDenormals() {
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
}

// Best effort: CreateCpuBackend has checked that the CPU may be used.
void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

// Spins until ready() or the time is over; what ready() says at the end.
template <typename Ready>
bool SpinUntil(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (ready()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

// Numbers pools, so that a thread can remember which one it serves even when a
// later pool takes the same address.
std::atomic<uint64_t> next_pool{1};
thread_local uint64_t adopted_by = 0;

}  // namespace

// How a loop runs. The caller writes the job, opens a new ticket, and works
// too. Whoever wins an index by compare-and-swap on the ticket owns it; the
// caller returns when `done` has counted all. A thread that comes late sees a
// spent or newer ticket, so nobody waits for sleepers.
//
// The job's fields are read before the swap and used only if it succeeds. A
// success proves that an index of that loop was still open, so the loop was not
// over, so the fields read were its own. (Counting what is left, not what is
// given out, keeps a spent ticket spent whatever the fields say by then.)
struct ThreadPool::State {
  explicit State(const ThreadPoolConfig& c) : config(c) {}
  // Also runs where the system refuses a thread and the constructor throws.
  ~State();

  void Work(int id);
  void RunIndices();
  uint32_t AwaitLoop(uint32_t seen);

  const ThreadPoolConfig config;
  const uint64_t number = next_pool.fetch_add(1, std::memory_order_relaxed);

  alignas(64) std::atomic<uint64_t> ticket{0};
  std::atomic<int64_t> count{0};
  std::atomic<const void*> context{nullptr};
  std::atomic<Call> call{nullptr};

  alignas(64) std::atomic<uint32_t> done{0};
  // Changes with every loop and at the end; what sleepers wait on.
  alignas(64) std::atomic<uint32_t> loop{0};
  std::atomic<bool> stop{false};

  std::vector<std::thread> threads;
};

void ThreadPool::State::RunIndices() {
  for (;;) {
    uint64_t open = ticket.load(std::memory_order_acquire);
    const int64_t total = count.load(std::memory_order_relaxed);
    const void* job = context.load(std::memory_order_relaxed);
    const Call run = call.load(std::memory_order_relaxed);
    const int64_t left = static_cast<int64_t>(open & kLeftMask);
    if (left == 0) return;
    if (!ticket.compare_exchange_weak(open, open - 1,
                                      std::memory_order_acq_rel))
      continue;
    run(job, total - left);
    const uint32_t finished = done.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (finished == static_cast<uint32_t>(total)) done.notify_all();
  }
}

// Waits for a loop other than `seen`: spinning first, if the pool may.
uint32_t ThreadPool::State::AwaitLoop(uint32_t seen) {
  const auto changed = [&] {
    return loop.load(std::memory_order_acquire) != seen;
  };
  if (!config.spin || !SpinUntil(changed))
    loop.wait(seen, std::memory_order_acquire);
  return loop.load(std::memory_order_acquire);
}

void ThreadPool::State::Work(int id) {
  FlushDenormals();
  if (!config.cpus.empty()) PinTo(config.cpus[id]);
  uint32_t seen = 0;
  for (;;) {
    seen = AwaitLoop(seen);
    if (stop.load(std::memory_order_acquire)) return;
    RunIndices();
  }
}

ThreadPool::State::~State() {
  stop.store(true, std::memory_order_release);
  loop.fetch_add(1, std::memory_order_acq_rel);
  loop.notify_all();
  for (std::thread& thread : threads) thread.join();
}

ThreadPool::ThreadPool(const ThreadPoolConfig& config)
    : state_(std::make_unique<State>(config)) {
  CHECK(config.threads >= 1);
  CHECK(config.cpus.empty() ||
        config.cpus.size() >= static_cast<size_t>(config.threads));
  FlushDenormals();
  State* state = state_.get();
  state->threads.reserve(config.threads - 1);
  for (int id = 1; id < config.threads; ++id)
    state->threads.emplace_back([state, id] { state->Work(id); });
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return state_->config.threads; }

void ThreadPool::AdoptCaller() {
  if (adopted_by == state_->number) return;
  adopted_by = state_->number;
  FlushDenormals();
  if (!state_->config.cpus.empty()) PinTo(state_->config.cpus[0]);
}

void ThreadPool::Run(int64_t count, const void* context, Call call) {
  CHECK(count < static_cast<int64_t>(kLeftMask));
  State& state = *state_;
  const uint64_t number =
      (state.ticket.load(std::memory_order_relaxed) >> kLeftBits) + 1;
  state.done.store(0, std::memory_order_relaxed);
  state.count.store(count, std::memory_order_relaxed);
  state.context.store(context, std::memory_order_relaxed);
  state.call.store(call, std::memory_order_relaxed);
  state.ticket.store((number << kLeftBits) | static_cast<uint64_t>(count),
                     std::memory_order_release);
  state.loop.fetch_add(1, std::memory_order_seq_cst);
  state.loop.notify_all();

  state.RunIndices();
  const uint32_t all = static_cast<uint32_t>(count);
  const auto finished = [&] {
    return state.done.load(std::memory_order_acquire) == all;
  };
  if (state.config.spin && SpinUntil(finished)) return;
  for (uint32_t seen;
       (seen = state.done.load(std::memory_order_acquire)) != all;)
    state.done.wait(seen, std::memory_order_acquire);
}

}  // namespace phalanx
