#ifndef PHALANX_WORKER_ENGINE_FOLLOWER_H_
#define PHALANX_WORKER_ENGINE_FOLLOWER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/collective/collective.h"
#include "worker/engine/model_runner.h"
#include "worker/engine/status_board.h"
#include "worker/engine/step_observer.h"

namespace phalanx {

// The loop on ranks above 0: receive a plan, run it. Has no scheduler, so it
// cannot drift from rank 0. Called by the engine thread.
class Follower {
 public:
  // All are lent and outlive it; a null observer: nobody looks.
  Follower(ModelRunner& runner, StatusBoard& board,
           StepObserver* observer = nullptr)
      : runner_(runner),
        board_(board),
        observer_(observer != nullptr ? *observer : no_observer_) {}

  // Follows one epoch until rank 0 says stop (OK) or the group is over (why).
  // A plan of another epoch or out of order is INTERNAL/RANK_DIVERGED.
  absl::Status Run(Collective& comm, uint64_t epoch);

 private:
  absl::Status Follow(Collective& comm, uint64_t epoch);

  ModelRunner& runner_;
  StatusBoard& board_;
  StepObserver no_observer_;
  StepObserver& observer_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_FOLLOWER_H_
