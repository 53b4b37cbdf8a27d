#ifndef PHALANX_WORKER_COLLECTIVE_SHM_SEGMENT_H_
#define PHALANX_WORKER_COLLECTIVE_SHM_SEGMENT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/loss.h"
#include "worker/collective/sum_tree.h"

namespace phalanx {

// The memory that the ranks of one group share, and its name while it has one.
//
//   SegmentHeader | RankLine [size] | RankRecord [size] | slots [size][2]
//
// It is trusted as far as our own user is (mode 0600, owner checked), but no
// length is taken from it unbounded. Names have the form
// /phalanx-<pid>-<epoch>-<random>.

// Two lines: processors fetch them in pairs.
inline constexpr size_t kLineBytes = 128;
inline constexpr int64_t kMinSlotBytes = 128;
inline constexpr int64_t kMaxSlotBytes = int64_t{64} << 20;

static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct alignas(kLineBytes) SegmentHeader {
  // Set last: with it, all below is valid.
  std::atomic<uint64_t> magic;
  uint64_t epoch;
  uint32_t size;
  uint64_t slot_bytes;
  // Set by rank 0 when all have mapped and the name is gone.
  std::atomic<uint32_t> formed;
  // 0: the group lives. r + 1: it is over, and rank r's record says why.
  alignas(kLineBytes) std::atomic<uint32_t> over;
};

// What a rank shows at every step; written by that rank alone, but for the two
// words of its sleepers.
struct alignas(kLineBytes) RankLine {
  // Steps this rank has taken. Published last, so all below and the slots are
  // visible to whoever has seen it.
  std::atomic<uint32_t> step;
  // A futex: changes when there may be news for those that wait for the rank.
  std::atomic<uint32_t> news;
  // How many sleep on `news`.
  std::atomic<uint32_t> sleepers;
  // The rank was destroyed; it takes no more steps.
  std::atomic<uint32_t> left;
  // By step & 1. The call that the step belongs to.
  std::array<std::atomic<uint64_t>, 2> tags;
  // Rank 0, by step & 1: bytes of the whole broadcast.
  std::array<std::atomic<uint64_t>, 2> broadcast_bytes;
  // By the call's parity: when the rank arrived in it, of the host's steady
  // clock.
  std::array<std::atomic<int64_t>, 2> arrival_nanoseconds;
};

// What is read at formation and at the end only.
struct alignas(kLineBytes) RankRecord {
  std::atomic<int32_t> claimed;  // 0 free, 1 being filled, 2 filled.
  int32_t pid;
  uint64_t start_ticks;
  // Why this rank ended the group, if header.over says that it did.
  int32_t lost_rank;
  uint32_t cause_bytes;
  char cause[kMaxCauseBytes];
};

class ShmSegment {
 public:
  struct Shape {
    int size = 1;
    uint64_t epoch = 0;
    int64_t slot_bytes = 0;
  };

  // Makes and fills the segment; all its memory is taken here. ALREADY_EXISTS
  // if the name is in use, even by a dead process; RESOURCE_EXHAUSTED if
  // /dev/shm has no room.
  static absl::StatusOr<std::unique_ptr<ShmSegment>> Create(
      const std::string& name, const Shape& shape);

  // Maps a segment that another process made. UNAVAILABLE if it is not there
  // or not yet filled (try again); FAILED_PRECONDITION names what does not
  // agree with `shape`; PERMISSION_DENIED if it is not our user's alone.
  static absl::StatusOr<std::unique_ptr<ShmSegment>> Open(
      const std::string& name, const Shape& shape);

  // Unmaps, and removes the name if this object still answers for it.
  ~ShmSegment();

  // Removes the name now. No matter if it is gone already.
  void Unlink();

  // Whether the destructor removes the name. From the start it does in the
  // segment of Create and does not in that of Open.
  void set_answers_for_name(bool answers) { answers_for_name_ = answers; }

  const Shape& shape() const { return shape_; }
  SegmentHeader& header() const;
  RankLine& line(int rank) const;
  RankRecord& record(int rank) const;
  // One of rank's two slots, shape().slot_bytes long.
  char* slot(int rank, int parity) const;

 private:
  ShmSegment(std::string name, const Shape& shape, char* memory);

  const std::string name_;
  const Shape shape_;
  char* const memory_;
  bool answers_for_name_ = false;
};

// A fresh name, of this process.
std::string NewSegmentName(uint64_t epoch);

// Removes the name, if it is there. For a creator that died before filling it.
void RemoveSegmentName(const std::string& name);

// INVALID_ARGUMENT unless it has the form above: nothing else is ever opened
// or removed.
absl::Status CheckSegmentName(const std::string& name);

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_SHM_SEGMENT_H_
