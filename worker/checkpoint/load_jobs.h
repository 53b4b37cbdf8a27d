#ifndef PHALANX_WORKER_CHECKPOINT_LOAD_JOBS_H_
#define PHALANX_WORKER_CHECKPOINT_LOAD_JOBS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace phalanx {

// How far a load has come, in bytes of bf16 that are put together and packed,
// whatever the format they are then held in: what takes the time.
struct LoadProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;

  double ratio() const {
    return total_bytes == 0 ? 1.0
                            : static_cast<double>(done_bytes) /
                                  static_cast<double>(total_bytes);
  }
};

// Makes malloc map allocations of a megabyte or more by themselves from here
// on, so that they are gone when freed. By default it raises that bound to what
// it sees, and keeps what threads freed in their arenas. For the whole process;
// any thread, more than once too.
void MapLargeTemporaries();

// What is left of a load once all its memory is allocated: independent pieces
// of work, run once by as many threads as one likes. One thread adds and runs.
class LoadJobs {
 public:
  // Room for a matrix on its way, one for each thread; work may leave anything
  // in it.
  using Scratch = std::vector<uint16_t>;

  struct RunOptions {
    int threads = 1;  // The caller counts as one.
    // Called before the first job and after each, by one thread at a time.
    std::function<void(const LoadProgress&)> on_progress = nullptr;
    // No further job begins once it is true.
    const std::atomic<bool>* stop = nullptr;
  };

  // `bytes` is what the job counts for in LoadProgress. Jobs begin in the order
  // of their adding, so add the longest first.
  void Add(int64_t bytes, std::function<void(Scratch*)> work);
  // For work that only the thread that loads may do; it does this first, while
  // the others begin with the rest.
  void AddForCaller(int64_t bytes, std::function<void()> work);

  // Returns when every job is done; CANCELLED if it was stopped before. Where
  // the system gives fewer threads, fewer do the work.
  absl::Status Run(const RunOptions& options);

 private:
  struct Job {
    int64_t bytes;
    std::function<void(Scratch*)> work;
  };
  class Running;

  std::vector<Job> jobs_;
  std::vector<Job> for_caller_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_LOAD_JOBS_H_
