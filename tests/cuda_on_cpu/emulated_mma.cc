#include "tests/cuda_on_cpu/emulated_mma.h"

#include "kernels/cuda/mma_tile.cuh"

namespace phalanx::cuda_on_cpu {
namespace {

// A and B of each warp of a block, B by columns.
struct Operands {
  float a[16][16];
  float b[8][16];
};
Operands operands[kMaxBlockThreads / kWarpLanes];

void MeetInWarp() { (void)__shfl_xor_sync(0xffffffffu, 0, 0); }

// Element i of a lane's registers.
float Element(const uint32_t* registers, int i) {
  return Bf16ToF32(static_cast<uint16_t>(registers[i / 2] >> i % 2 * 16));
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16" of .bf16: with g = lane / 4 and
// t = lane % 4, element i of A is row g + 8 (i / 2 odd), column 2 t + i % 2 + 8
// (i >= 4); element i of B is row 2 t + i % 2 + 8 (i >= 2), column g; element i
// of C is row g + 8 (i >= 2), column 2 t + i % 2.
struct Emulated {
  static void Multiply(uint4 a, uint2 b, float (&c)[4]) {
    Operands& warp = operands[threadIdx.x / kWarpLanes];
    const int g = static_cast<int>(MyLane()) / 4;
    const int t = static_cast<int>(MyLane()) % 4;
    const uint32_t a_registers[] = {a.x, a.y, a.z, a.w};
    const uint32_t b_registers[] = {b.x, b.y};
    for (int i = 0; i < 8; ++i)
      warp.a[g + 8 * (i / 2 % 2)][2 * t + i % 2 + 8 * (i / 4)] =
          Element(a_registers, i);
    for (int i = 0; i < 4; ++i)
      warp.b[g][2 * t + i % 2 + 8 * (i / 2)] = Element(b_registers, i);
    MeetInWarp();
    for (int i = 0; i < 4; ++i) {
      const float* row = warp.a[g + 8 * (i / 2)];
      const float* column = warp.b[2 * t + i % 2];
      for (int k = 0; k < 16; ++k)
        c[i] = __builtin_fmaf(row[k], column[k], c[i]);
    }
    MeetInWarp();
  }
};

}  // namespace

cudaError_t EmulatedTensorCoreProduct(const cuda::ProductArgs& args,
                                      cuda::ProductResult result,
                                      cudaStream_t stream) {
  return cuda::LaunchProduct<cuda::MmaTile<Emulated>>(args, result, stream);
}

}  // namespace phalanx::cuda_on_cpu
