#ifndef PHALANX_WORKER_EXPERTS_EXPERT_SLOTS_H_
#define PHALANX_WORKER_EXPERTS_EXPERT_SLOTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"
#include "worker/checkpoint/expert_shapes.h"
#include "worker/experts/expert_bank.h"

namespace phalanx {

// Room for experts of `shapes`, as expert_slots of the backend's memory.
// RESOURCE_EXHAUSTED and UNIMPLEMENTED come from the backend and name `what`.
// From the thread that may call Allocate.
absl::StatusOr<ExpertSlots> AllocateExpertSlots(Backend& backend,
                                                const ExpertShapes& shapes,
                                                absl::string_view what);

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_EXPERT_SLOTS_H_
