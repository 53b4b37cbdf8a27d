#ifndef PHALANX_TESTS_WORKER_EXPERTS_GATED_BANK_H_
#define PHALANX_TESTS_WORKER_EXPERTS_GATED_BANK_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/mutex.h"
#include "worker/experts/expert_bank.h"
#include "worker/experts/slot_table.h"

namespace phalanx {

// A bank whose fetches wait until the test lets them go, and which remembers
// their order. An expert's matrices hold its MarkOf in their first bytes. Any
// thread.
class GatedBank final : public ExpertBank {
 public:
  static constexpr int64_t kExpertBytes = 1000;

  static int32_t MarkOf(ExpertId id) { return id.layer * 1000 + id.expert + 1; }
  // What a matrix holds; of host memory.
  static int32_t MarkIn(const PackedWeight& weight, int64_t index) {
    int32_t mark = 0;
    std::memcpy(&mark, MatrixOf(weight, index), sizeof(mark));
    return mark;
  }

  void Fetch(int layer, int expert, int64_t slot,
             ExpertSlots& slots) const override {
    const ExpertId id{layer, expert};
    {
      MutexLock lock(mutex_);
      started_.push_back(id);
    }
    changed_.SignalAll();
    {
      MutexLock lock(mutex_);
      changed_.Wait(mutex_, [&] { return open_ || Contains(allowed_, id); });
    }
    const int32_t mark = MarkOf(id);
    std::memcpy(MatrixOf(slots.gate_up, slot), &mark, sizeof(mark));
    std::memcpy(MatrixOf(slots.down, slot), &mark, sizeof(mark));
    {
      MutexLock lock(mutex_);
      ended_.push_back(id);
    }
    changed_.SignalAll();
  }
  void WillNeed(int layer, int expert) const override {
    MutexLock lock(mutex_);
    hinted_.push_back({layer, expert});
  }
  int64_t expert_bytes() const override { return kExpertBytes; }
  int64_t bytes() const override { return 0; }

  // Lets all go, or the fetches of one expert, those to come too.
  void Open() {
    {
      MutexLock lock(mutex_);
      open_ = true;
    }
    changed_.SignalAll();
  }
  void Allow(ExpertId id) {
    {
      MutexLock lock(mutex_);
      allowed_.push_back(id);
    }
    changed_.SignalAll();
  }

  void AwaitStarted(ExpertId id) const {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&] { return Contains(started_, id); });
  }
  void AwaitEnded(ExpertId id) const {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&] { return Contains(ended_, id); });
  }

  // In the order of the calls.
  std::vector<ExpertId> started() const {
    MutexLock lock(mutex_);
    return started_;
  }
  std::vector<ExpertId> ended() const {
    MutexLock lock(mutex_);
    return ended_;
  }
  std::vector<ExpertId> hinted() const {
    MutexLock lock(mutex_);
    return hinted_;
  }

  static bool Contains(const std::vector<ExpertId>& ids, ExpertId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  }

 private:
  static char* MatrixOf(const PackedWeight& weight, int64_t index) {
    return static_cast<char*>(weight.storage.data()) +
           index * weight.matrix_bytes;
  }

  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable std::vector<ExpertId> started_ ABSL_GUARDED_BY(mutex_);
  mutable std::vector<ExpertId> ended_ ABSL_GUARDED_BY(mutex_);
  mutable std::vector<ExpertId> hinted_ ABSL_GUARDED_BY(mutex_);
  std::vector<ExpertId> allowed_ ABSL_GUARDED_BY(mutex_);
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_EXPERTS_GATED_BANK_H_
