#include "worker/checkpoint/load_jobs.h"

#include <malloc.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "common/mutex.h"

namespace phalanx {
namespace {

constexpr int kMappedBytes = 1 << 20;

}  // namespace

void MapLargeTemporaries() { mallopt(M_MMAP_THRESHOLD, kMappedBytes); }

// The state that the threads of one Run share.
class LoadJobs::Running {
 public:
  Running(const std::vector<Job>& jobs, const std::vector<Job>& for_caller,
          const RunOptions& options)
      : jobs_(jobs), for_caller_(for_caller), options_(options) {
    for (const Job& job : jobs_) progress_.total_bytes += job.bytes;
    for (const Job& job : for_caller_) progress_.total_bytes += job.bytes;
  }

  void Begin() { Count(0); }

  void DoCallersJobs() {
    Scratch none;
    for (const Job& job : for_caller_)
      if (!Do(job, &none)) return;
  }

  // On every thread: takes jobs until none is left.
  void DoJobs() {
    Scratch scratch;
    for (size_t i = next_.fetch_add(1); i < jobs_.size();
         i = next_.fetch_add(1))
      if (!Do(jobs_[i], &scratch)) return;
  }

  absl::Status status() const {
    return stopped_.load() ? absl::CancelledError("loading was stopped")
                           : absl::OkStatus();
  }

 private:
  // False if it is not done, since somebody wants no more.
  bool Do(const Job& job, Scratch* scratch) {
    if (options_.stop != nullptr && options_.stop->load()) {
      stopped_.store(true);
      return false;
    }
    job.work(scratch);
    Count(job.bytes);
    return true;
  }

  void Count(int64_t bytes) {
    MutexLock lock(mutex_);
    progress_.done_bytes += bytes;
    if (options_.on_progress != nullptr) options_.on_progress(progress_);
  }

  const std::vector<Job>& jobs_;
  const std::vector<Job>& for_caller_;
  const RunOptions& options_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stopped_{false};
  Mutex mutex_;
  LoadProgress progress_ ABSL_GUARDED_BY(mutex_);
};

void LoadJobs::Add(int64_t bytes, std::function<void(Scratch*)> work) {
  jobs_.push_back({bytes, std::move(work)});
}

void LoadJobs::AddForCaller(int64_t bytes, std::function<void()> work) {
  for_caller_.push_back(
      {bytes, [work = std::move(work)](Scratch*) { work(); }});
}

absl::Status LoadJobs::Run(const RunOptions& options) {
  MapLargeTemporaries();
  Running running(jobs_, for_caller_, options);
  running.Begin();
  const int threads =
      static_cast<int>(std::min<int64_t>(options.threads, std::ssize(jobs_)));
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads; ++t) {
    try {
      helpers.emplace_back([&running] { running.DoJobs(); });
    } catch (const std::system_error&) {
      break;  // No more to be had.
    }
  }
  running.DoCallersJobs();
  running.DoJobs();
  for (std::thread& helper : helpers) helper.join();
  // The smaller ones.
  malloc_trim(0);
  jobs_.clear();
  for_caller_.clear();
  return running.status();
}

}  // namespace phalanx
