#ifndef PHALANX_TESTS_SUPPORT_GENERATE_H_
#define PHALANX_TESTS_SUPPORT_GENERATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/tp_group.h"
#include "worker/scheduler/limits.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// Scheduler limits that a group made with `limits` can carry, for `running`
// sequences and prefill in chunks of `prefill_chunk`.
SchedulerLimits LimitsFor(const TpGroup& group, int64_t running,
                          int64_t prefill_chunk);

// Takes the requests, all at once, through the real scheduler and sampler, as
// the engine does on rank 0. The tokens of each, in order of the requests; the
// first error of a step or of a request otherwise.
absl::StatusOr<std::vector<std::vector<Token>>> Generate(
    TpGroup& group, const SchedulerLimits& limits,
    std::vector<Request> requests);

}  // namespace phalanx

#endif  // PHALANX_TESTS_SUPPORT_GENERATE_H_
