#ifndef PHALANX_WORKER_BENCH_ALL_REDUCE_PAIR_H_
#define PHALANX_WORKER_BENCH_ALL_REDUCE_PAIR_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/bench/kernel_cases.h"
#include "worker/collective/collective.h"

namespace phalanx {

// This process as rank 0 of two, the other being a child on another CPU that
// does nothing but answer. Dies after the cases that it gave.
class AllReducePair {
 public:
  // Forks the child; not once the process has threads. Two CPUs at least.
  static absl::StatusOr<std::unique_ptr<AllReducePair>> Start(
      const std::vector<int>& cpus);
  ~AllReducePair();

  // The sum of [T, 2048] f32 to bf16 over both, for T of 1 and 512. What they
  // measured means something only if status() is OK afterwards.
  std::vector<KernelCase> Cases();

  // GROUP_LOST, with the cause, once the child is gone.
  absl::Status status() const { return comm_->status(); }

 private:
  explicit AllReducePair(pid_t child) : child_(child) {}

  const pid_t child_;
  std::unique_ptr<Collective> comm_;
  std::vector<float> partial_;
  std::vector<uint16_t> sum_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_ALL_REDUCE_PAIR_H_
