#ifndef PHALANX_TESTS_WORKER_MODEL_SUM_RECORDER_H_
#define PHALANX_TESTS_WORKER_MODEL_SUM_RECORDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/collective/collective.h"

namespace phalanx {

// A collective that also keeps every sum over ranks as it is before its
// rounding to bf16, which would hide most wrong orders of summation: a change
// of a last bit in f32 turns one bf16 value in tens of thousands.
//
// All ranks of a group are wrapped, since each sum is made twice. Host memory
// only. Used by its rank's thread; read between steps.
class SumRecorder final : public Collective {
 public:
  // `sums` sums make a step.
  SumRecorder(std::unique_ptr<Collective> inner, int64_t sums)
      : inner_(std::move(inner)), rows_(sums) {}

  // The bytes of each sum of a step: f32 rows of all steps below each other.
  const std::vector<std::string>& rows() const { return rows_; }

  // Hands the wrapped one back; nothing may be called afterwards.
  std::unique_ptr<Collective> Release() { return std::move(inner_); }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void AllReduceSum(Tensor partial, Tensor out) override {
    const int64_t bytes = partial.elements() * ElementBytes(DType::kF32);
    std::string& rows = rows_[calls_++ % rows_.size()];
    rows.resize(rows.size() + bytes);
    Tensor exact = partial;
    exact.data = rows.data() + rows.size() - bytes;
    inner_->AllReduceSum(partial, exact);
    inner_->AllReduceSum(partial, out);
  }
  void AllGather(Tensor mine, Tensor all) override {
    inner_->AllGather(mine, all);
  }
  absl::Status Broadcast(std::string& bytes) override {
    return inner_->Broadcast(bytes);
  }
  int64_t max_broadcast_bytes() const override {
    return inner_->max_broadcast_bytes();
  }
  absl::Status Barrier() override { return inner_->Barrier(); }
  void Abort(const absl::Status& reason) override { inner_->Abort(reason); }
  absl::Status status() const override { return inner_->status(); }

 private:
  std::unique_ptr<Collective> inner_;
  std::vector<std::string> rows_;
  int64_t calls_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_MODEL_SUM_RECORDER_H_
