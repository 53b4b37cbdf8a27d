#include "worker/experts/expert_cache.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/status.h"
#include "common/units.h"
#include "worker/experts/expert_slots.h"
#include "worker/experts/slot_table.h"

namespace phalanx {
namespace {

constexpr int kMaxFetchThreads = 64;
constexpr int64_t kPlaceAlignment = 16;  // Elements: 64 bytes.
constexpr int32_t kNoPlace = -1;

// A step that needs this part of a layer's experts will need most of the next
// layer's as well.
constexpr int64_t kMostNumerator = 3;
constexpr int64_t kMostDenominator = 4;

absl::Status CheckConfig(const ModelConfig& config,
                         const ExpertCacheConfig& cache) {
  if (cache.slots < config.num_experts)
    return absl::InvalidArgumentError(absl::StrCat(
        "slots is ", cache.slots, "; must be at least num_experts, ",
        config.num_experts, ": a layer in flight must fit"));
  if (cache.fetch_threads < 1 || cache.fetch_threads > kMaxFetchThreads)
    return absl::InvalidArgumentError(
        absl::StrCat("fetch_threads is ", cache.fetch_threads, "; must be 1..",
                     kMaxFetchThreads));
  return absl::OkStatus();
}

}  // namespace

// The slots, what is to be fetched into them, and the threads that do it. The
// engine thread alone takes slots and pins; fetch threads only make them ready.
class ExpertCache::Work {
 public:
  Work(Backend& backend, const ModelConfig& config, const ExpertBank& bank,
       int64_t slots, FetchObserver* observer)
      : backend_(backend),
        layers_(config.num_layers()),
        experts_(config.num_experts),
        experts_per_token_(config.num_experts_per_tok),
        bank_(bank),
        observer_(observer),
        table_(slots, layers_, experts_),
        needed_(static_cast<size_t>(experts_)),
        places_(static_cast<size_t>(experts_), kNoPlace),
        offsets_(static_cast<size_t>(experts_) + 1) {}
  ~Work();

  absl::Status Allocate(const ExpertShapes& shapes);
  absl::Status StartThreads(int count);

  void Begin(int layer, const Routing& routing);
  ExpertView Wait(int layer);
  ExpertCacheCounters counters() const;
  void Count(bool counting) {
    counting_.store(counting, std::memory_order_relaxed);
  }

 private:
  struct Job {
    ExpertId id;
    int64_t slot = SlotTable::kNone;
    // Will be fetched next, and nobody has hinted at it.
    std::optional<ExpertId> hint;
    bool counts = true;
  };

  std::vector<int> ReadNeeds(int layer, const Routing& routing);
  void ForgetLastLayer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Pins what `needs` names, taking slots for what is not there; the latter.
  std::vector<ExpertId> QueueNeeds(int layer, const std::vector<int>& needs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void QueuePrefetch(int layer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pin(int64_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void FetchLoop();
  std::optional<Job> NextJob() ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  void CountFetch(double seconds);
  bool counting() const { return counting_.load(std::memory_order_relaxed); }
  Tensor PlacesOf(int layer) const;

  Backend& backend_;
  const int64_t layers_;
  const int64_t experts_;
  const int64_t experts_per_token_;
  const ExpertBank& bank_;
  FetchObserver* const observer_;
  const MonotonicClock clock_;
  ExpertSlots slots_;
  Buffer places_storage_;

  Mutex mutex_;
  CondVar work_;  // There is a job, or the end.
  CondVar done_;  // A fetch has ended.
  SlotTable table_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> demand_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> prefetch_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> pinned_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> needed_ ABSL_GUARDED_BY(mutex_);  // Of layer_, by expert.
  int layer_ ABSL_GUARDED_BY(mutex_) = -1;            // In flight.
  int64_t missing_ ABSL_GUARDED_BY(mutex_) = 0;       // Needed, not ready.
  int fetching_ ABSL_GUARDED_BY(mutex_) = 0;          // Jobs on threads.
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  // The engine thread's.
  std::vector<int32_t> places_;
  std::vector<int32_t> offsets_;

  std::atomic<bool> counting_{true};
  std::atomic<int64_t> slots_used_{0};
  std::atomic<int64_t> hits_{0};
  std::atomic<int64_t> fetches_{0};
  std::atomic<int64_t> fetched_bytes_{0};
  std::atomic<int64_t> tokens_{0};
  std::atomic<double> imbalance_{0};

  std::vector<std::thread> threads_;
};

ExpertCache::Work::~Work() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  work_.SignalAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status ExpertCache::Work::Allocate(const ExpertShapes& shapes) {
  const int64_t row_bytes =
      RoundUp(experts_, kPlaceAlignment) * int64_t{sizeof(int32_t)};
  ASSIGN_OR_RETURN(slots_,
                   AllocateExpertSlots(backend_, shapes, "expert slots"));
  ASSIGN_OR_RETURN(
      places_storage_,
      backend_.Allocate(layers_ * row_bytes, MemoryComponent::kExpertSlots,
                        "places of experts"));
  return absl::OkStatus();
}

absl::Status ExpertCache::Work::StartThreads(int count) {
  try {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this] { FetchLoop(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for ", count, " fetch threads: ", error.what()));
  }
  return absl::OkStatus();
}

void ExpertCache::Work::Begin(int layer, const Routing& routing) {
  // Blocks until the routing is computed, and so all that was enqueued before
  // it: nobody reads the last layer's slots any more.
  const std::vector<int> needs = ReadNeeds(layer, routing);
  const bool most = static_cast<int64_t>(needs.size()) * kMostDenominator >=
                    experts_ * kMostNumerator;
  std::vector<ExpertId> absent;
  bool jobs = false;
  {
    MutexLock lock(mutex_);
    ForgetLastLayer();
    absent = QueueNeeds(layer, needs);
    if (most && table_.slots() >= 2 * experts_ && layer + 1 < layers_)
      QueuePrefetch(layer + 1);
    jobs = !demand_.empty() || !prefetch_.empty();
    slots_used_.store(table_.used(), std::memory_order_relaxed);
  }
  // Waking threads for nothing would cost more than all of the above.
  if (jobs) work_.SignalAll();
  // Beside the first fetches, and soon ahead of them.
  for (const ExpertId id : absent) bank_.WillNeed(id.layer, id.expert);
}

std::vector<int> ExpertCache::Work::ReadNeeds(int layer,
                                              const Routing& routing) {
  CHECK(routing.offsets.dims[0] == experts_ + 1);
  backend_.Download(routing.offsets, offsets_.data());
  std::vector<int> needs;
  int32_t most_tokens = 0;
  for (size_t e = 0; e + 1 < offsets_.size(); ++e) {
    const int32_t tokens = offsets_[e + 1] - offsets_[e];
    if (tokens > 0) needs.push_back(static_cast<int>(e));
    most_tokens = std::max(most_tokens, tokens);
  }
  const double mean =
      static_cast<double>(offsets_.back()) / static_cast<double>(experts_);
  if (!counting()) return needs;
  imbalance_.store(mean > 0 ? most_tokens / mean : 0,
                   std::memory_order_relaxed);
  if (layer == 0)
    tokens_.fetch_add(offsets_.back() / experts_per_token_,
                      std::memory_order_relaxed);
  return needs;
}

void ExpertCache::Work::ForgetLastLayer() {
  for (const int64_t slot : pinned_) table_.Unpin(slot);
  pinned_.clear();
  // What no thread has begun is not worth its slot now; QueueNeeds asks again
  // for what is.
  for (const Job& job : demand_) table_.Release(job.slot);
  for (const Job& job : prefetch_) table_.Release(job.slot);
  demand_.clear();
  prefetch_.clear();
}

void ExpertCache::Work::Pin(int64_t slot) {
  table_.Pin(slot);
  pinned_.push_back(slot);
}

std::vector<ExpertId> ExpertCache::Work::QueueNeeds(
    int layer, const std::vector<int>& needs) {
  layer_ = layer;
  missing_ = 0;
  std::fill(needed_.begin(), needed_.end(), false);
  std::fill(places_.begin(), places_.end(), kNoPlace);
  std::vector<ExpertId> absent;
  int64_t hits = 0;
  for (const int e : needs) {
    const ExpertId id{layer, e};
    const int64_t slot = table_.Find(id);
    needed_[static_cast<size_t>(e)] = true;
    places_[static_cast<size_t>(e)] = static_cast<int32_t>(slot);
    if (slot == SlotTable::kNone) {
      absent.push_back(id);
      continue;
    }
    Pin(slot);
    if (table_.state(slot) == SlotState::kReady)
      ++hits;
    else
      ++missing_;
  }
  for (const ExpertId id : absent) {
    int64_t slot = table_.Take(id);
    // Only where a given-up layer's fetches hold the last slots.
    while (slot == SlotTable::kNone) {
      CHECK(fetching_ > 0);
      const int before = fetching_;
      done_.Wait(mutex_, [&] { return fetching_ < before; });
      slot = table_.Take(id);
    }
    Pin(slot);
    places_[static_cast<size_t>(id.expert)] = static_cast<int32_t>(slot);
    demand_.push_back(
        {.id = id, .slot = slot, .hint = {}, .counts = counting()});
    ++missing_;
  }
  for (const int e : needs) table_.Use(places_[static_cast<size_t>(e)]);
  if (counting()) {
    hits_.fetch_add(hits, std::memory_order_relaxed);
    fetches_.fetch_add(static_cast<int64_t>(needs.size()) - hits,
                       std::memory_order_relaxed);
  }
  return absent;
}

void ExpertCache::Work::QueuePrefetch(int layer) {
  // First those that are there, so that none makes room for another.
  for (int e = 0; e < experts_; ++e) {
    const int64_t slot = table_.Find({layer, e});
    if (slot != SlotTable::kNone) Pin(slot);
  }
  for (int e = 0; e < experts_; ++e) {
    const ExpertId id{layer, e};
    if (table_.Find(id) != SlotTable::kNone) continue;
    const int64_t slot = table_.Take(id);
    if (slot == SlotTable::kNone) return;
    Pin(slot);
    prefetch_.push_back(
        {.id = id, .slot = slot, .hint = {}, .counts = counting()});
  }
}

ExpertView ExpertCache::Work::Wait(int layer) {
  {
    MutexLock lock(mutex_);
    CHECK(layer == layer_);
    done_.Wait(mutex_, [this] { return missing_ == 0; });
  }
  const Tensor places = PlacesOf(layer);
  backend_.Upload(places_.data(), places);
  return {.gate_up = &slots_.gate_up, .down = &slots_.down, .places = places};
}

Tensor ExpertCache::Work::PlacesOf(int layer) const {
  int32_t* first = static_cast<int32_t*>(places_storage_.data()) +
                   layer * RoundUp(experts_, kPlaceAlignment);
  return MakeTensor(first, DType::kI32, experts_);
}

void ExpertCache::Work::FetchLoop() {
  while (const std::optional<Job> job = NextJob()) {
    if (job->hint.has_value())
      bank_.WillNeed(job->hint->layer, job->hint->expert);
    const double start = clock_.now_seconds();
    bank_.Fetch(job->id.layer, job->id.expert, job->slot, slots_);
    if (job->counts) CountFetch(clock_.now_seconds() - start);
    Finish(*job);
  }
}

void ExpertCache::Work::CountFetch(double seconds) {
  fetched_bytes_.fetch_add(bank_.expert_bytes(), std::memory_order_relaxed);
  if (observer_ != nullptr) observer_->OnFetch(seconds, bank_.expert_bytes());
}

std::optional<ExpertCache::Work::Job> ExpertCache::Work::NextJob() {
  MutexLock lock(mutex_);
  work_.Wait(mutex_, [this] {
    return stop_ || !demand_.empty() || !prefetch_.empty();
  });
  if (stop_) return std::nullopt;
  const bool demanded = !demand_.empty();
  std::deque<Job>& queue = demanded ? demand_ : prefetch_;
  Job job = queue.front();
  queue.pop_front();
  // Needs were hinted at all together, by Begin; prefetches one by one, so that
  // the disk serves the needs first.
  if (!demanded && !prefetch_.empty()) job.hint = prefetch_.front().id;
  ++fetching_;
  return job;
}

void ExpertCache::Work::Finish(const Job& job) {
  {
    MutexLock lock(mutex_);
    table_.SetReady(job.slot);
    --fetching_;
    if (job.id.layer == layer_ && needed_[static_cast<size_t>(job.id.expert)])
      --missing_;
  }
  done_.SignalAll();
}

ExpertCacheCounters ExpertCache::Work::counters() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.slots = slots_.gate_up.count,
          .slots_used = slots_used_.load(kRelaxed),
          .hits = hits_.load(kRelaxed),
          .fetches = fetches_.load(kRelaxed),
          .fetched_bytes = fetched_bytes_.load(kRelaxed),
          .tokens = tokens_.load(kRelaxed),
          .imbalance = imbalance_.load(kRelaxed)};
}

absl::StatusOr<std::unique_ptr<ExpertCache>> ExpertCache::Create(
    Backend& backend, const ModelConfig& config, const LocalShape& shape,
    const ExpertBank& bank, const ExpertCacheConfig& cache,
    FetchObserver* observer) {
  RETURN_IF_ERROR(CheckConfig(config, cache));
  const int64_t slots =
      std::min(cache.slots, config.num_layers() * config.num_experts);
  auto work = std::make_unique<Work>(backend, config, bank, slots, observer);
  RETURN_IF_ERROR(
      work->Allocate(ExpertShapesOf(config, shape, cache.format, slots)));
  RETURN_IF_ERROR(work->StartThreads(cache.fetch_threads));
  return std::unique_ptr<ExpertCache>(new ExpertCache(std::move(work)));
}

ExpertCache::ExpertCache(std::unique_ptr<Work> work) : work_(std::move(work)) {}
ExpertCache::~ExpertCache() = default;

void ExpertCache::Begin(int layer, const Routing& routing) {
  work_->Begin(layer, routing);
}
ExpertView ExpertCache::Wait(int layer) { return work_->Wait(layer); }
ExpertCacheCounters ExpertCache::counters() const { return work_->counters(); }
void ExpertCache::Count(bool counting) { work_->Count(counting); }

}  // namespace phalanx
