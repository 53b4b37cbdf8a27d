#include "worker/experts/expert_slots.h"

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace phalanx {

absl::StatusOr<ExpertSlots> AllocateExpertSlots(Backend& backend,
                                                const ExpertShapes& shapes,
                                                absl::string_view what) {
  ExpertSlots slots;
  ASSIGN_OR_RETURN(
      slots.gate_up,
      backend.AllocateWeight(shapes.gate_up, MemoryComponent::kExpertSlots,
                             absl::StrCat(what, " gate_up")));
  ASSIGN_OR_RETURN(slots.down, backend.AllocateWeight(
                                   shapes.down, MemoryComponent::kExpertSlots,
                                   absl::StrCat(what, " down")));
  return slots;
}

}  // namespace phalanx
