#include "worker/collective/shm_steps.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <limits>

#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(50);
// Between two looks at the clock, which may cost 100 ns; a pause is 10 to 50.
constexpr int kPausesPerLook = 64;
// Before sleeping where spinning is forbidden.
constexpr int kYields = 8;
// Between two looks for the dead.
constexpr long kSleepNanoseconds = 100'000'000;

int64_t NowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Not the private kind: the word is shared between processes. Returns on a
// wake, on a changed word, on a signal and after a while; the caller looks
// again in any case.
void FutexWait(std::atomic<uint32_t>& word, uint32_t seen) {
  const timespec timeout{.tv_sec = 0, .tv_nsec = kSleepNanoseconds};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void Wake(RankLine& line) {
  line.news.fetch_add(1);
  syscall(SYS_futex, &line.news, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void WakeAll(ShmSegment& segment) {
  for (int r = 0; r < segment.shape().size; ++r) Wake(segment.line(r));
}

}  // namespace

absl::Status GroupStatus(const ShmSegment& segment) {
  const uint32_t over = segment.header().over.load();
  if (over == 0) return absl::OkStatus();
  const int last = segment.shape().size - 1;
  const RankRecord& record =
      segment.record(static_cast<int>(std::min<uint32_t>(over - 1, last)));
  const uint32_t bytes = std::min<uint32_t>(record.cause_bytes, kMaxCauseBytes);
  return LossError(segment.shape().epoch,
                   {.rank = std::clamp(record.lost_rank, 0, last),
                    .cause = std::string(record.cause, bytes)});
}

void EndGroup(ShmSegment& segment, int rank, const Loss& loss) {
  std::atomic<uint32_t>& over = segment.header().over;
  // Also keeps this rank from writing its record twice.
  if (over.load() != 0) return;
  RankRecord& record = segment.record(rank);
  record.lost_rank = loss.rank;
  record.cause_bytes = static_cast<uint32_t>(
      std::min<size_t>(loss.cause.size(), kMaxCauseBytes));
  std::memcpy(record.cause, loss.cause.data(), record.cause_bytes);
  // Whoever sees the word finds the whole record.
  uint32_t living = 0;
  over.compare_exchange_strong(living, static_cast<uint32_t>(rank) + 1);
  WakeAll(segment);
}

ShmSteps::~ShmSteps() {
  segment_.line(rank_).left.store(1);
  WakeAll(segment_);
}

bool ShmSteps::Enter() {
  if (over()) return false;
  for (int r = 0; r < size_; ++r)
    if (!Await(r, arrival_)) return false;
  arrival_ = step_ + 1;
  parity_ ^= 1;
  return true;
}

bool ShmSteps::EnterExchange() {
  if (!Enter()) return false;
  if (size_ == 2) traded_[parity_] ^= 1;
  return true;
}

void ShmSteps::Publish(CallTag tag) {
  ++step_;
  tag_ = tag;
  seen_[rank_] = step_;
  RankLine& line = segment_.line(rank_);
  line.tags[step_ & 1].store(tag, std::memory_order_relaxed);
  if (step_ == arrival_)
    line.arrival_nanoseconds[parity_].store(NowNanoseconds(),
                                            std::memory_order_relaxed);
  line.step.store(step_);
  // In one order with the sleeper, which counts itself before it looks at the
  // step for the last time: either it sees the step or we see it.
  if (line.sleepers.load() != 0) Wake(line);
}

void ShmSteps::PublishBroadcast(CallTag tag, int64_t bytes) {
  segment_.line(rank_).broadcast_bytes[(step_ + 1) & 1].store(
      static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  Publish(tag);
}

bool ShmSteps::AwaitAll() {
  for (int r = 0; r < size_; ++r)
    if (!Await(r, step_) || !CheckTag(r)) return false;
  // Ranks arrive in a call's first step; what follows they do together.
  if (step_ == arrival_) skew_seconds_ = MeasureSkew();
  return true;
}

double ShmSteps::MeasureSkew() const {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  for (int r = 0; r < size_; ++r) {
    const int64_t arrival = segment_.line(r).arrival_nanoseconds[parity_].load(
        std::memory_order_relaxed);
    first = std::min(first, arrival);
    last = std::max(last, arrival);
  }
  return 1e-9 * static_cast<double>(last - first);
}

bool ShmSteps::AwaitRoot() {
  if (!Await(0, step_) || !CheckTag(0)) return false;
  broadcast_bytes_ = segment_.line(0).broadcast_bytes[step_ & 1].load(
      std::memory_order_relaxed);
  return true;
}

bool ShmSteps::Reached(int rank, uint32_t step) {
  if (static_cast<int32_t>(seen_[rank] - step) >= 0) return true;
  seen_[rank] = segment_.line(rank).step.load();
  return static_cast<int32_t>(seen_[rank] - step) >= 0;
}

bool ShmSteps::Await(int rank, uint32_t step) {
  return Reached(rank, step) || SpinFor(rank, step) || SleepFor(rank, step);
}

bool ShmSteps::SpinFor(int rank, uint32_t step) {
  if (!spin_) {
    for (int i = 0; i < kYields; ++i) {
      sched_yield();
      if (Reached(rank, step)) return true;
    }
    return false;
  }
  // The clock starts late: most waits are shorter than a look at it.
  std::chrono::steady_clock::time_point end{};
  while (true) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      Pause();
      if (Reached(rank, step)) return true;
    }
    const auto now = std::chrono::steady_clock::now();
    if (end == std::chrono::steady_clock::time_point{}) end = now + kSpinTime;
    if (over() || now >= end) return false;
  }
}

bool ShmSteps::SleepFor(int rank, uint32_t step) {
  awaited_rank_.store(rank);
  const bool reached = SleepUntil(rank, step);
  awaited_rank_.store(-1);
  return reached;
}

bool ShmSteps::SleepUntil(int rank, uint32_t step) {
  RankLine& line = segment_.line(rank);
  while (true) {
    line.sleepers.fetch_add(1);
    const uint32_t news = line.news.load();
    const bool ended = over();
    Loss loss;
    const bool lost = !ended && FindLoss(loss);
    // After the looks above: what a rank did before it went away still counts.
    const bool reached = Reached(rank, step);
    if (!reached && !ended && !lost) FutexWait(line.news, news);
    line.sleepers.fetch_sub(1);
    if (reached) return true;
    if (lost) Abort(loss);
    if (ended || lost) return false;
  }
}

bool ShmSteps::CheckTag(int rank) {
  const CallTag theirs =
      segment_.line(rank).tags[step_ & 1].load(std::memory_order_relaxed);
  if (theirs == tag_) return true;
  Abort({rank, absl::StrCat(kDiverged, "it called ", CallName(theirs),
                            ", rank ", rank_, " called ", CallName(tag_))});
  return false;
}

bool ShmSteps::FindLoss(Loss& loss) const {
  const int dead = peers_.FirstDead();
  if (dead >= 0) {
    loss = {.rank = dead, .cause = "its process has ended"};
    return true;
  }
  for (int r = 0; r < size_; ++r) {
    if (segment_.line(r).left.load() == 0) continue;
    loss = {.rank = r, .cause = "left the group"};
    return true;
  }
  return false;
}

void ShmSteps::Abort(const Loss& loss) {
  MutexLock lock(record_mutex_);
  EndGroup(segment_, rank_, loss);
}

}  // namespace phalanx
