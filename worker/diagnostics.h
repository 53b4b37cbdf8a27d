#ifndef PHALANX_WORKER_DIAGNOSTICS_H_
#define PHALANX_WORKER_DIAGNOSTICS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/mutex.h"
#include "kernels/backend.h"
#include "worker/engine/status_board.h"

namespace phalanx {

// What a rank is asked about when somebody wants to know how it is.
struct RankView {
  int rank = 0;
  WorkerSnapshot now;
  int64_t active_requests = 0;  // Handed in and not ended; rank 0's.
  double step_age_seconds = 0;  // Of the step that runs; 0: none does.
  const Backend* backend = nullptr;
};

// All of it as one line of JSON, without its end:
//   {"event":"diagnostics","rank":0,"state":"ready","epoch":3,...}
std::string DiagnosticsJson(const RankView& view);

// Answers SIGQUIT. Made by main before any other thread; Write is the signal
// thread's, Set and Forget the engine thread's.
class Diagnostics {
 public:
  // Who knows, from now on. What it refers to lives until Forget.
  void Set(std::function<RankView()> look);
  void Forget();

  // One line to stderr, in one write. A rank that is not set yet says just
  // that it starts.
  void Write();

 private:
  Mutex mutex_;
  std::function<RankView()> look_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_DIAGNOSTICS_H_
