#ifndef PHALANX_WORKER_COLLECTIVE_TIMED_COLLECTIVE_H_
#define PHALANX_WORKER_COLLECTIVE_TIMED_COLLECTIVE_H_

#include <memory>
#include <string>

#include "common/clock.h"
#include "worker/collective/collective.h"
#include "worker/collective/collective_observer.h"

namespace phalanx {

// A collective that shows its calls to an observer and is otherwise the one
// inside it, bit for bit. Two looks at the clock and one at the group's state a
// call: below 0.1 us.
class TimedCollective final : public Collective {
 public:
  // The observer and the clock outlive it.
  TimedCollective(std::unique_ptr<Collective> inner,
                  CollectiveObserver& observer, const Clock& clock)
      : inner_(std::move(inner)), observer_(observer), clock_(clock) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void AllReduceSum(Tensor partial, Tensor out) override;
  void AllGather(Tensor mine, Tensor all) override;
  absl::Status Broadcast(std::string& bytes) override;
  int64_t max_broadcast_bytes() const override {
    return inner_->max_broadcast_bytes();
  }
  absl::Status Barrier() override;
  double last_skew_seconds() const override {
    return inner_->last_skew_seconds();
  }
  int awaited_rank() const override { return inner_->awaited_rank(); }
  void Abort(const absl::Status& reason) override { inner_->Abort(reason); }
  absl::Status status() const override { return inner_->status(); }

 private:
  void Tell(CollectiveOp op, double began_seconds, int64_t bytes,
            const absl::Status& status);

  const std::unique_ptr<Collective> inner_;
  CollectiveObserver& observer_;
  const Clock& clock_;
  bool failed_ = false;  // The engine thread's.
};

// Which of the reasons of the metrics this error of a collective is.
CollectiveFailure CollectiveFailureOf(const absl::Status& status);

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_TIMED_COLLECTIVE_H_
