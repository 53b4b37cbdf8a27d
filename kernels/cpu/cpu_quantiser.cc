#include "kernels/cpu/cpu_quantiser.h"

#include <cstdlib>

#include "common/status.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/isa.h"

namespace phalanx {

absl::StatusOr<WeightRowQuantiser> CpuWeightRowQuantiser() {
  ASSIGN_OR_RETURN(const Isa isa,
                   ChooseIsa(DetectCpu(), std::getenv("PHALANX_ISA")));
  return CpuTable(isa, KernelFamily::kFma, /*vnni=*/false).quantise_weight_row;
}

}  // namespace phalanx
