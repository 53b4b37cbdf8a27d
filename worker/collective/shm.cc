#include "worker/collective/shm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
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
// To round costs more than to add; of larger groups nothing was measured.
template <typename Out>
constexpr int64_t OneShotBytes(int size) {
  const bool adds_only = std::is_same_v<Out, float>;
  return int64_t{size == 2 && adds_only ? 8 : 4} << 10;
}

// Elements that go through a slot at once: a block of whole lines for each
// rank, where there is room for more than one line each.
int64_t PieceCount(int64_t slot_bytes, int size) {
  const int64_t even = static_cast<int64_t>(size * kLineBytes);
  const int64_t bytes =
      slot_bytes < even ? slot_bytes : slot_bytes / even * even;
  return bytes / int64_t{sizeof(float)};
}

class ShmCollective final : public Collective {
 public:
  ShmCollective(FormedGroup group, const ShmConfig& config)
      : segment_(std::move(group.segment)),
        peers_(std::move(group.peers)),
        rank_(config.rank),
        size_(config.size),
        slot_bytes_(config.slot_bytes),
        piece_count_(PieceCount(config.slot_bytes, config.size)),
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
      if (!steps_.EnterExchange()) return;
      std::memcpy(MySlot(), mine.row<char>(0) + first, length);
      steps_.Publish(tag);
      if (!steps_.AwaitAll()) return;
      for (int r = 0; r < size_; ++r)
        std::memcpy(all.row<char>(0) + r * bytes + first,
                    r == rank_ ? mine.row<char>(0) + first : steps_.slot(r),
                    length);
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
  char* MySlot() const { return steps_.slot(rank_); }
  float* Plane(int rank) const {
    return reinterpret_cast<float*>(steps_.slot(rank));
  }

  // In pieces of a slot.
  template <typename Out>
  void ReduceAll(CallTag tag, const float* partial, int64_t count, Out* out) {
    for (int64_t first = 0; first < count; first += piece_count_) {
      const int64_t length = std::min(piece_count_, count - first);
      const bool whole =
          length * int64_t{sizeof(float)} <= OneShotBytes<Out>(size_)
              ? ReduceAtOnce(tag, partial + first, length, out + first)
              : ReduceByBlocks(tag, partial + first, length, out + first);
      if (!whole) return;
    }
  }

  // Everyone shows its plane and adds all.
  template <typename Out>
  bool ReduceAtOnce(CallTag tag, const float* partial, int64_t count,
                    Out* out) {
    if (!steps_.EnterExchange()) return false;
    std::memcpy(Plane(rank_), partial, count * sizeof(float));
    steps_.Publish(tag);
    if (!steps_.AwaitAll()) return false;
    SumOverRanks(partial, count, out, [&](int r) { return Plane(r); });
    return true;
  }

  // Rank r adds block r.
  template <typename Out>
  bool ReduceByBlocks(CallTag tag, const float* partial, int64_t count,
                      Out* out) {
    constexpr int64_t kLineCount = kLineBytes / sizeof(float);
    const int64_t block =
        (count + size_ * kLineCount - 1) / (size_ * kLineCount) * kLineCount;
    const auto first = [&](int r) { return std::min(r * block, count); };
    const auto length = [&](int r) { return first(r + 1) - first(r); };
    // Where rank r writes what belongs to block b; sizes are powers of two, so
    // that r ^ b is below size_. The result of its own block is always in the
    // first place: two ranks that trade slots then find each line as far
    // written as before, although results are shorter in bf16.
    const auto place = [&](int r, int b) { return Plane(r) + (r ^ b) * block; };
    if (!steps_.EnterExchange()) return false;
    for (int r = 0; r < size_; ++r)
      if (r != rank_)
        std::memcpy(place(rank_, r), partial + first(r),
                    length(r) * sizeof(float));
    steps_.Publish(tag);
    if (!steps_.AwaitAll()) return false;
    SumOverRanks(partial + first(rank_), length(rank_), out + first(rank_),
                 [&](int r) { return place(r, rank_); });
    std::memcpy(place(rank_, rank_), out + first(rank_),
                length(rank_) * sizeof(Out));
    steps_.Publish(tag);
    if (!steps_.AwaitAll()) return false;
    for (int r = 0; r < size_; ++r)
      if (r != rank_)
        std::memcpy(out + first(r), place(r, r), length(r) * sizeof(Out));
    return true;
  }

  // out[0, count) = the sum of plane(r) of every other rank and, of this one,
  // `partial`, where it lies.
  template <typename Out, typename PlaneOf>
  void SumOverRanks(const float* partial, int64_t count, Out* out,
                    const PlaneOf& plane) const {
    std::array<const float*, kMaxRanks> planes;
    for (int r = 0; r < size_; ++r) planes[r] = r == rank_ ? partial : plane(r);
    SumPlanes({planes.data(), static_cast<size_t>(size_)}, count, out);
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
      std::memcpy(bytes.data() + first, steps_.slot(0), length);
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
  const int64_t piece_count_;
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
