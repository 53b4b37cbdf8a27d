#include "worker/collective/shm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/collective/call.h"
#include "worker/collective/shm_formation.h"
#include "worker/collective/shm_segment.h"
#include "worker/collective/shm_steps.h"
#include "worker/collective/sum_tree.h"

namespace phalanx {
namespace {

// Up to here every rank adds all planes itself, which saves a step; above, each
// adds and rounds one block and all read the results, which divides the work.
constexpr int64_t kOneShotBytes = int64_t{4} << 10;

class ShmCollective final : public Collective {
 public:
  ShmCollective(FormedGroup group, const ShmConfig& config)
      : segment_(std::move(group.segment)),
        peers_(std::move(group.peers)),
        rank_(config.rank),
        size_(config.size),
        slot_bytes_(config.slot_bytes),
        steps_(*segment_, rank_, *peers_, config.spin) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void AllReduceSum(Tensor partial, Tensor out) override {
    const CallTag tag = CheckedAllReduce(partial, out);
    if (out.dtype == DType::kF32) {
      ReduceAll(tag, partial.row<float>(0), partial.elements(),
                out.row<float>(0));
    } else {
      ReduceAll(tag, partial.row<float>(0), partial.elements(),
                out.row<uint16_t>(0));
    }
  }

  void AllGather(Tensor mine, Tensor all) override {
    const CallTag tag = CheckedAllGather(mine, all, size_);
    const int64_t bytes = mine.elements() * ElementBytes(mine.dtype);
    for (int64_t first = 0; first < bytes; first += slot_bytes_) {
      const int64_t length = std::min(slot_bytes_, bytes - first);
      if (!steps_.Enter()) return;
      std::memcpy(MySlot(), mine.row<char>(0) + first, length);
      steps_.Publish(tag);
      if (!steps_.AwaitAll()) return;
      for (int r = 0; r < size_; ++r)
        std::memcpy(all.row<char>(0) + r * bytes + first,
                    r == rank_ ? mine.row<char>(0) + first : Slot(r), length);
    }
  }

  absl::Status Broadcast(std::string& bytes) override {
    return rank_ == 0 ? SendBroadcast(bytes) : ReceiveBroadcast(bytes);
  }

  int64_t max_broadcast_bytes() const override { return kMaxBroadcastBytes; }

  absl::Status Barrier() override {
    if (!steps_.Enter()) return status();
    steps_.Publish(MakeCallTag(CallKind::kBarrier, 0));
    return steps_.AwaitAll() ? absl::OkStatus() : status();
  }

  double last_skew_seconds() const override { return steps_.skew_seconds(); }

  int awaited_rank() const override { return steps_.awaited_rank(); }

  void Abort(const absl::Status& reason) override {
    steps_.Abort(LossOf(reason, rank_, size_));
  }

  absl::Status status() const override { return GroupStatus(*segment_); }

 private:
  char* Slot(int rank) const { return segment_->slot(rank, steps_.parity()); }
  char* MySlot() const { return Slot(rank_); }

  // In pieces of a slot.
  template <typename Out>
  void ReduceAll(CallTag tag, const float* partial, int64_t count, Out* out) {
    const int64_t slot_count = slot_bytes_ / int64_t{sizeof(float)};
    for (int64_t first = 0; first < count; first += slot_count) {
      const int64_t length = std::min(slot_count, count - first);
      const bool whole =
          length * int64_t{sizeof(float)} <= kOneShotBytes
              ? ReduceAtOnce(tag, partial + first, length, out + first)
              : ReduceByBlocks(tag, partial + first, length, out + first);
      if (!whole) return;
    }
  }

  // Everyone shows its plane and adds all.
  template <typename Out>
  bool ReduceAtOnce(CallTag tag, const float* partial, int64_t count,
                    Out* out) {
    if (!steps_.Enter()) return false;
    std::memcpy(Plane(rank_), partial, count * sizeof(float));
    steps_.Publish(tag);
    if (!steps_.AwaitAll()) return false;
    SumBlock(partial, 0, count, out);
    return true;
  }

  // Rank r adds block r: nobody else needs its own plane of it, so the result
  // takes that place in its slot.
  template <typename Out>
  bool ReduceByBlocks(CallTag tag, const float* partial, int64_t count,
                      Out* out) {
    constexpr int64_t kLineCount = kLineBytes / sizeof(float);
    const int64_t block =
        (count + size_ * kLineCount - 1) / (size_ * kLineCount) * kLineCount;
    const auto first = [&](int r) { return std::min(r * block, count); };
    const auto length = [&](int r) { return first(r + 1) - first(r); };
    if (!steps_.Enter()) return false;
    for (int r = 0; r < size_; ++r)
      if (r != rank_)
        std::memcpy(Plane(rank_) + first(r), partial + first(r),
                    length(r) * sizeof(float));
    steps_.Publish(tag);
    if (!steps_.AwaitAll()) return false;
    SumBlock(partial, first(rank_), length(rank_), out);
    std::memcpy(Plane(rank_) + first(rank_), out + first(rank_),
                length(rank_) * sizeof(Out));
    steps_.Publish(tag);
    if (!steps_.AwaitAll()) return false;
    for (int r = 0; r < size_; ++r)
      if (r != rank_)
        std::memcpy(out + first(r), Plane(r) + first(r),
                    length(r) * sizeof(Out));
    return true;
  }

  float* Plane(int rank) const { return reinterpret_cast<float*>(Slot(rank)); }

  // out[first, first + count) = the sum of these elements of every plane; this
  // rank's own is `partial`.
  template <typename Out>
  void SumBlock(const float* partial, int64_t first, int64_t count,
                Out* out) const {
    std::array<const float*, kMaxRanks> planes;
    for (int r = 0; r < size_; ++r)
      planes[r] = (r == rank_ ? partial : Plane(r)) + first;
    SumPlanes({planes.data(), static_cast<size_t>(size_)}, count, out + first);
  }

  // Pieces carry their number in the tag and the whole length beside it. Rank 0
  // waits for nobody but, in Enter, for those that are two pieces behind.
  absl::Status SendBroadcast(const std::string& bytes) {
    const int64_t total = static_cast<int64_t>(bytes.size());
    if (total > kMaxBroadcastBytes)
      return absl::InvalidArgumentError(absl::StrCat("broadcast is ", total,
                                                     " bytes; must be at most ",
                                                     kMaxBroadcastBytes));
    int64_t first = 0;
    int64_t piece = 0;
    do {
      const int64_t length = std::min(slot_bytes_, total - first);
      if (!steps_.Enter()) return status();
      std::memcpy(MySlot(), bytes.data() + first, length);
      steps_.PublishBroadcast(MakeCallTag(CallKind::kBroadcast, piece++),
                              total);
      first += length;
    } while (first < total);
    return absl::OkStatus();
  }

  absl::Status ReceiveBroadcast(std::string& bytes) {
    int64_t total = 0;
    int64_t first = 0;
    int64_t piece = 0;
    do {
      if (!steps_.Enter()) return status();
      steps_.Publish(MakeCallTag(CallKind::kBroadcast, piece));
      if (!steps_.AwaitRoot()) return status();
      if (piece++ == 0) {
        total = static_cast<int64_t>(
            std::min<uint64_t>(steps_.broadcast_bytes(), kMaxBroadcastBytes));
        bytes.resize(total);
      }
      const int64_t length = std::min(slot_bytes_, total - first);
      std::memcpy(bytes.data() + first, Slot(0), length);
      first += length;
    } while (first < total);
    return absl::OkStatus();
  }

  // In the order of their needs: steps_ goes first.
  const std::unique_ptr<ShmSegment> segment_;
  const std::unique_ptr<PeerWatch> peers_;
  const int rank_;
  const int size_;
  const int64_t slot_bytes_;
  ShmSteps steps_;
};

}  // namespace

std::string NewShmName(uint64_t epoch) { return NewSegmentName(epoch); }

absl::StatusOr<std::unique_ptr<Collective>> JoinShmGroup(
    const ShmConfig& config) {
  ASSIGN_OR_RETURN(FormedGroup group, FormShmGroup(config));
  return std::make_unique<ShmCollective>(std::move(group), config);
}

}  // namespace phalanx
