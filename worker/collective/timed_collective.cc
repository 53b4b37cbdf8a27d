#include "worker/collective/timed_collective.h"

#include <utility>

#include "absl/strings/match.h"
#include "common/reason.h"
#include "worker/collective/loss.h"

namespace phalanx {
namespace {

int64_t BytesOf(const Tensor& tensor) {
  return tensor.elements() * ElementBytes(tensor.dtype);
}

}  // namespace

void TimedCollective::AllReduceSum(Tensor partial, Tensor out) {
  const double began = clock_.now_seconds();
  inner_->AllReduceSum(partial, out);
  Tell(CollectiveOp::kAllReduce, began, BytesOf(partial), inner_->status());
}

void TimedCollective::AllGather(Tensor mine, Tensor all) {
  const double began = clock_.now_seconds();
  inner_->AllGather(mine, all);
  Tell(CollectiveOp::kAllGather, began, BytesOf(mine), inner_->status());
}

absl::Status TimedCollective::Broadcast(std::string& bytes) {
  const double began = clock_.now_seconds();
  absl::Status status = inner_->Broadcast(bytes);
  Tell(CollectiveOp::kBroadcast, began, static_cast<int64_t>(bytes.size()),
       status);
  return status;
}

absl::Status TimedCollective::Barrier() {
  const double began = clock_.now_seconds();
  absl::Status status = inner_->Barrier();
  Tell(CollectiveOp::kBarrier, began, 0, status);
  return status;
}

// Errors are sticky, so only the first is news.
void TimedCollective::Tell(CollectiveOp op, double began_seconds, int64_t bytes,
                           const absl::Status& status) {
  if (status.ok()) {
    observer_.OnCall(op, clock_.now_seconds() - began_seconds, bytes);
    const double skew = inner_->last_skew_seconds();
    if (op != CollectiveOp::kBroadcast && skew >= 0) observer_.OnSkew(skew);
  } else if (!std::exchange(failed_, true)) {
    observer_.OnFailure(op, CollectiveFailureOf(status));
  }
}

CollectiveFailure CollectiveFailureOf(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) return CollectiveFailure::kTimeout;
  Reason reason = ReasonOf(status);
  if (reason.word != "GROUP_LOST") return CollectiveFailure::kLibrary;
  return absl::StartsWith(reason.metadata["cause"], kDiverged)
             ? CollectiveFailure::kMismatch
             : CollectiveFailure::kPeerLost;
}

}  // namespace phalanx
