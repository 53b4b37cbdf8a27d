#include "worker/collective/local.h"

#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/mutex.h"
#include "worker/collective/call.h"
#include "worker/collective/loss.h"
#include "worker/collective/solo.h"
#include "worker/collective/sum_tree.h"

namespace phalanx {
namespace {

constexpr uint64_t kEpoch = 0;

// What the ranks of one local group have in common.
//
// A rank lays its data into its stage of this call, meets the others, reads
// theirs. Stages alternate between two sets: whoever writes a set again has met
// everybody once more since, so nobody still reads it.
class LocalGroup {
 public:
  explicit LocalGroup(int size)
      : size_(size), meetings_(size), tags_(size), left_(size) {
    for (auto& set : stages_) set.resize(size);
  }

  int size() const { return size_; }

  // Stages of the call that rank is in; written before it meets the others.
  std::vector<char>& stage(int64_t call, int rank) {
    return stages_[call & 1][rank];
  }

  // Returns once all ranks have made their call number `call`; false if the
  // group is over.
  bool Meet(int rank, int64_t call, CallTag tag) {
    MutexLock lock(mutex_);
    if (!status_.ok()) return false;
    meetings_[rank] = call;
    tags_[rank][call & 1] = tag;
    changed_.SignalAll();
    const auto all_here = [&] {
      for (const int64_t meeting : meetings_)
        if (meeting < call) return false;
      return true;
    };
    changed_.Wait(mutex_, [&] {
      return all_here() || !status_.ok() || FirstLeft() >= 0;
    });
    if (!all_here()) {
      if (FirstLeft() >= 0) End({FirstLeft(), "left the group"});
      return false;
    }
    for (int r = 0; r < size_; ++r) {
      const CallTag theirs = tags_[r][call & 1];
      if (theirs == tag) continue;
      End({r, absl::StrCat(kDiverged, "it called ", CallName(theirs), ", rank ",
                           rank, " called ", CallName(tag))});
      return false;
    }
    return true;
  }

  void Leave(int rank) {
    MutexLock lock(mutex_);
    left_[rank] = true;
    changed_.SignalAll();
  }

  void Abort(const Loss& loss) {
    MutexLock lock(mutex_);
    End(loss);
  }

  absl::Status status() {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  int FirstLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (int r = 0; r < size_; ++r)
      if (left_[r]) return r;
    return -1;
  }

  void End(const Loss& loss) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!status_.ok()) return;
    status_ = LossError(kEpoch, loss);
    changed_.SignalAll();
  }

  const int size_;
  // Unguarded: the meetings order all access.
  std::array<std::vector<std::vector<char>>, 2> stages_;

  Mutex mutex_;
  CondVar changed_;
  // The number of the last call of each rank, and the tags of its last two.
  std::vector<int64_t> meetings_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::array<CallTag, 2>> tags_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

class LocalCollective final : public Collective {
 public:
  // The group lives as long as the longest-lived of its ranks, which may end
  // in any order: hence shared.
  LocalCollective(std::shared_ptr<LocalGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  ~LocalCollective() override { group_->Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  void AllReduceSum(Tensor partial, Tensor out) override {
    const CallTag tag = CheckedAllReduce(partial, out);
    const int64_t count = partial.elements();
    if (!Exchange(partial.data, count * sizeof(float), tag)) return;
    std::vector<const float*> planes;
    for (int r = 0; r < size(); ++r)
      planes.push_back(reinterpret_cast<const float*>(Stage(r).data()));
    if (out.dtype == DType::kF32) {
      SumPlanes(planes, count, out.row<float>(0));
    } else {
      SumPlanes(planes, count, out.row<uint16_t>(0));
    }
  }

  void AllGather(Tensor mine, Tensor all) override {
    const CallTag tag = CheckedAllGather(mine, all, size());
    const int64_t bytes = mine.elements() * ElementBytes(mine.dtype);
    if (!Exchange(mine.data, bytes, tag) || bytes == 0) return;
    for (int r = 0; r < size(); ++r)
      std::memcpy(all.row<char>(0) + r * bytes, Stage(r).data(), bytes);
  }

  absl::Status Broadcast(std::string& bytes) override {
    const bool root = rank_ == 0;
    const int64_t length = root ? static_cast<int64_t>(bytes.size()) : 0;
    if (length > kMaxBroadcastBytes)
      return absl::InvalidArgumentError(absl::StrCat("broadcast is ", length,
                                                     " bytes; must be at most ",
                                                     kMaxBroadcastBytes));
    if (!Exchange(bytes.data(), length, MakeCallTag(CallKind::kBroadcast, 0)))
      return status();
    if (!root) bytes.assign(Stage(0).begin(), Stage(0).end());
    return absl::OkStatus();
  }

  int64_t max_broadcast_bytes() const override { return kMaxBroadcastBytes; }

  absl::Status Barrier() override {
    if (!Exchange(nullptr, 0, MakeCallTag(CallKind::kBarrier, 0)))
      return status();
    return absl::OkStatus();
  }

  void Abort(const absl::Status& reason) override {
    group_->Abort(LossOf(reason, rank_, size()));
  }

  absl::Status status() const override { return group_->status(); }

 private:
  // Shows `bytes` of data to all and waits for theirs. Nothing is written once
  // the group is over: a slower rank may still read the call before.
  bool Exchange(const void* data, int64_t bytes, CallTag tag) {
    if (!status().ok()) return false;
    ++call_;
    const char* first = static_cast<const char*>(data);
    if (bytes > 0) {
      Stage(rank_).assign(first, first + bytes);
    } else {
      Stage(rank_).clear();
    }
    return group_->Meet(rank_, call_, tag);
  }
  std::vector<char>& Stage(int rank) { return group_->stage(call_, rank); }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
  int64_t call_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> CreateLocalGroup(int size) {
  CHECK(IsGroupSize(size));
  std::vector<std::unique_ptr<Collective>> ranks;
  if (size == 1) {
    ranks.push_back(CreateSoloCollective());
    return ranks;
  }
  auto group = std::make_shared<LocalGroup>(size);
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<LocalCollective>(group, rank));
  return ranks;
}

}  // namespace phalanx
