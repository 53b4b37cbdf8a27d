#ifndef PHALANX_KERNELS_CPU_CPU_QUANTISER_H_
#define PHALANX_KERNELS_CPU_CPU_QUANTISER_H_

#include "absl/status/statusor.h"
#include "kernels/quantise.h"

namespace phalanx {

// QuantiseWeightRow in the best instruction set that the processor has, or in
// the one that PHALANX_ISA names: what a load quantises with, without a
// backend. Any thread. Errors as of ChooseIsa (isa.h).
absl::StatusOr<WeightRowQuantiser> CpuWeightRowQuantiser();

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_CPU_QUANTISER_H_
