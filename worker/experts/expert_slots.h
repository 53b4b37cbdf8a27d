#ifndef PHALANX_WORKER_EXPERTS_EXPERT_SLOTS_H_
#define PHALANX_WORKER_EXPERTS_EXPERT_SLOTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"
#include "worker/checkpoint/model_config.h"
#include "worker/experts/expert_bank.h"

namespace phalanx {

// Room for `count` of this rank's routed experts, as expert_slots of the
// backend's memory. RESOURCE_EXHAUSTED comes from the backend and names `what`.
// From the thread that may call Allocate.
absl::StatusOr<ExpertSlots> AllocateExpertSlots(Backend& backend,
                                                const ModelConfig& config,
                                                const LocalShape& shape,
                                                int64_t count,
                                                absl::string_view what);

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_EXPERT_SLOTS_H_
