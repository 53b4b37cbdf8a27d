#include "worker/collective/solo.h"

#include <array>
#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "worker/collective/call.h"
#include "worker/collective/loss.h"
#include "worker/collective/sum_tree.h"

namespace phalanx {
namespace {

constexpr uint64_t kEpoch = 0;

class SoloCollective final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void AllReduceSum(Tensor partial, Tensor out) override {
    CheckedAllReduce(partial, out);
    if (over_.load()) return;
    const std::array<const float*, 1> planes = {partial.row<float>(0)};
    if (out.dtype == DType::kF32)
      SumPlanes(planes, partial.elements(), out.row<float>(0));
    else
      SumPlanes(planes, partial.elements(), out.row<uint16_t>(0));
  }

  void AllGather(Tensor mine, Tensor all) override {
    CheckedAllGather(mine, all, /*size=*/1);
    const int64_t bytes = mine.elements() * ElementBytes(mine.dtype);
    if (bytes > 0 && !over_.load()) std::memcpy(all.data, mine.data, bytes);
  }

  absl::Status Broadcast(std::string& bytes) override {
    const auto length = static_cast<int64_t>(bytes.size());
    if (length > kMaxBroadcastBytes)
      return absl::InvalidArgumentError(absl::StrCat("broadcast is ", length,
                                                     " bytes; must be at most ",
                                                     kMaxBroadcastBytes));
    return status();
  }

  int64_t max_broadcast_bytes() const override { return kMaxBroadcastBytes; }

  absl::Status Barrier() override { return status(); }

  void Abort(const absl::Status& reason) override {
    MutexLock lock(mutex_);
    if (!status_.ok()) return;
    status_ = LossError(kEpoch, LossOf(reason, /*caller=*/0, /*size=*/1));
    over_.store(true);
  }

  absl::Status status() const override {
    if (!over_.load()) return absl::OkStatus();
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> over_{false};  // Whether status_ is an error.
};

}  // namespace

std::unique_ptr<Collective> CreateSoloCollective() {
  return std::make_unique<SoloCollective>();
}

}  // namespace phalanx
