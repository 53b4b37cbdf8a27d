#ifndef PHALANX_TESTS_CUDA_ON_CPU_BLOCK_H_
#define PHALANX_TESTS_CUDA_ON_CPU_BLOCK_H_

// One block of CUDA threads on one processor: a fiber for each thread. Between
// two barriers of the block its warps run one after another, each as far as it
// can, and the lanes of a warp one after another between two operations of the
// warp; both orders are drawn anew each time from a fixed seed. So a thread
// that relies on another without a barrier sooner or later runs before it.

#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <vector>

struct dim3 {
  unsigned x, y, z;
  constexpr explicit(false) dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}
};

// Of the CUDA thread that runs now.
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace phalanx::cuda_on_cpu {

using Site = std::source_location;

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kMaxBlockThreads = 1024;

// Runs `body` as every thread of a block of blockDim; returns "" or why the
// block cannot go on: threads that wait for each other at different places, or
// for a thread that has ended. Memory that is __shared__ holds NaNs at first.
std::string RunBlock(const std::function<void()>& body);

// __syncthreads.
void WaitForBlock(const Site& where);

// What a lane brings to an operation of its warp; it gets back the `value` of
// lane `source`. All lanes of `mask` must come to the same place.
uint64_t ExchangeInWarp(unsigned mask, uint64_t value, unsigned source,
                        const Site& where);
unsigned MyLane();

// --- For tests -------------------------------------------------------------

// All orders that follow are those of this seed.
void SetSeed(uint64_t seed);

// A barrier of the block, as "file:line".
std::string NameOf(const Site& where);
// Those at which a block has waited since ForgetBarriers.
std::vector<std::string> BarriersSeen();
void ForgetBarriers();
// Threads pass this barrier as if it were not there; "" is none.
void LeaveOutBarrier(const std::string& barrier);

}  // namespace phalanx::cuda_on_cpu

#endif  // PHALANX_TESTS_CUDA_ON_CPU_BLOCK_H_
