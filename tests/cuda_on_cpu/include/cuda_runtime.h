#ifndef PHALANX_TESTS_CUDA_ON_CPU_INCLUDE_CUDA_RUNTIME_H_
#define PHALANX_TESTS_CUDA_ON_CPU_INCLUDE_CUDA_RUNTIME_H_

// What kernels/cuda finds where it asks for <cuda_runtime.h>.

#include "tests/cuda_on_cpu/device_code.h"
#include "tests/cuda_on_cpu/runtime.h"

#endif  // PHALANX_TESTS_CUDA_ON_CPU_INCLUDE_CUDA_RUNTIME_H_
