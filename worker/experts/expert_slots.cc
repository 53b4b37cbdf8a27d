#include "worker/experts/expert_slots.h"

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace phalanx {

absl::StatusOr<ExpertSlots> AllocateExpertSlots(Backend& backend,
                                                const ModelConfig& config,
                                                const LocalShape& shape,
                                                int64_t count,
                                                absl::string_view what) {
  ExpertSlots slots;
  ASSIGN_OR_RETURN(slots.gate_up,
                   backend.AllocateWeight({.count = count,
                                           .rows = 2 * shape.expert_width,
                                           .cols = config.hidden_size,
                                           .layout = WeightLayout::kGateUp},
                                          MemoryComponent::kExpertSlots,
                                          absl::StrCat(what, " gate_up")));
  ASSIGN_OR_RETURN(slots.down,
                   backend.AllocateWeight({.count = count,
                                           .rows = config.hidden_size,
                                           .cols = shape.expert_width},
                                          MemoryComponent::kExpertSlots,
                                          absl::StrCat(what, " down")));
  return slots;
}

}  // namespace phalanx
