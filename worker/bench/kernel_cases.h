#ifndef PHALANX_WORKER_BENCH_KERNEL_CASES_H_
#define PHALANX_WORKER_BENCH_KERNEL_CASES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/bench/kernel_report.h"

namespace phalanx {

// One kernel, ready to be called: what it works on lives as long as this does.
struct KernelCase {
  KernelWork work;
  // Call number i, 0, 1, 2 ...: neighbours work on other memory, where the
  // kernel reads what no cache holds in service.
  std::function<void(int64_t i)> call;
  // Told before as many calls as it says. May be null.
  std::function<void(int64_t calls)> begin = nullptr;
};

struct KernelSizes {
  int64_t set_bytes = 0;  // That calls of a case go through, at the least.
  int64_t experts = 256;  // Of a layer; 8 a token.
};

// The names of groups of cases.
inline constexpr const char* kKernelGroups[] = {
    "product", "experts", "attention", "delta", "conv", "norm"};

// The cases of one group, of the sizes of the 35B, with seeded random operands;
// what the backend has no kernels for is told in `left_out`. Errors are the
// backend's. The cases die before it.
absl::StatusOr<std::vector<KernelCase>> MakeKernelCases(
    const std::string& group, const KernelSizes& sizes, Backend& backend,
    std::vector<std::string>& left_out);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_KERNEL_CASES_H_
