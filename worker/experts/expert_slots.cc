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
                   backend.AllocateWeight(
                       count, 2 * shape.expert_width, config.hidden_size,
                       WeightLayout::kGateUp, MemoryComponent::kExpertSlots,
                       absl::StrCat(what, " gate_up")));
  ASSIGN_OR_RETURN(
      slots.down,
      backend.AllocateWeight(
          count, config.hidden_size, shape.expert_width, WeightLayout::kPlain,
          MemoryComponent::kExpertSlots, absl::StrCat(what, " down")));
  return slots;
}

}  // namespace phalanx
