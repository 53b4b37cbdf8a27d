#ifndef PHALANX_KERNELS_CPU_CPU_ROOF_LOOPS_H_
#define PHALANX_KERNELS_CPU_CPU_ROOF_LOOPS_H_

#include "kernels/roof_loops.h"

namespace phalanx {

// Those of the processor this runs on, whatever PHALANX_ISA says: a roof is the
// machine's, not the kernels'.
RoofLoops CpuRoofLoops();

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_CPU_ROOF_LOOPS_H_
