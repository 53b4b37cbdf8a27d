// That the card which is not there finds what a real one might hide: kernels
// with a fault of each kind, and the same without.

#include "tests/cuda_on_cpu/block.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace phalanx::cuda_on_cpu {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Ne;

constexpr unsigned kThreads = 96;  // Three warps.

// --- Kernels ---------------------------------------------------------------

// y[i] = x[n - 1 - i] + 2 x[n - 1 - i], each through shared memory.
__global__ void Turn(const float* x, float* y) {
  __shared__ float shared[kThreads];
  float sum = 0;
  for (int round = 1; round <= 2; ++round) {
    shared[threadIdx.x] = x[threadIdx.x] * static_cast<float>(round);
    __syncthreads();
    sum += shared[kThreads - 1 - threadIdx.x];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}

// y[i] = the sum of the warp of thread i.
__global__ void SumWarp(const float* x, float* y) {
  float sum = x[threadIdx.x];
  for (int lane = 16; lane >= 1; lane /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  y[threadIdx.x] = sum;
}

__global__ void WaitApart(const float*, float*) {
  if (threadIdx.x < 40)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void ShuffleInHalfAWarp(const float* x, float* y) {
  if (threadIdx.x % 32 < 16)
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
}

__global__ void ShuffleOutOfTheMask(const float* x, float* y) {
  y[threadIdx.x] = __shfl_xor_sync(1u << threadIdx.x % 32, x[threadIdx.x], 1);
}

#ifndef __SANITIZE_ADDRESS__  // See __shared__ in device_code.h.
__global__ void ReadUnwritten(const float*, float* y) {
  __shared__ float shared[kThreads];
  y[threadIdx.x] = shared[threadIdx.x];
  __syncthreads();
  shared[threadIdx.x] = 1;
}
#endif

// ---------------------------------------------------------------------------

class BlockTest : public testing::Test {
 protected:
  void SetUp() override { Reset(); }
  void TearDown() override { Reset(); }

  // y of a block of kThreads, x = 0, 1, 2 ...; "" or what was complained of.
  std::string Run(void (*kernel)(const float*, float*), uint64_t seed = 1) {
    std::iota(x_.begin(), x_.end(), 0.0f);
    SetSeed(seed);
    blockDim = dim3(kThreads);
    return RunBlock([&] { kernel(x_.data(), y_.data()); });
  }

  std::vector<float> Turned() const {
    std::vector<float> turned(kThreads);
    for (unsigned i = 0; i < kThreads; ++i)
      turned[i] = 3 * static_cast<float>(kThreads - 1 - i);
    return turned;
  }

  std::vector<float> x_ = std::vector<float>(kThreads);
  std::vector<float> y_ = std::vector<float>(kThreads);
};

TEST_F(BlockTest, AKernelThatWaitsIsRightInEveryOrder) {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    EXPECT_THAT(Run(Turn, seed), IsEmpty());

    EXPECT_EQ(y_, Turned()) << "seed " << seed;
  }
}

TEST_F(BlockTest, EachBarrierLeftOutShows) {
  ASSERT_THAT(Run(Turn), IsEmpty());
  const std::vector<std::string> barriers = BarriersSeen();
  ASSERT_EQ(barriers.size(), 2u);
  for (const std::string& barrier : barriers) {
    LeaveOutBarrier(barrier);
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      EXPECT_THAT(Run(Turn, seed), IsEmpty());

      EXPECT_NE(y_, Turned()) << barrier << ", seed " << seed;
    }
  }
}

TEST_F(BlockTest, AShuffleBringsWhatTheOtherLaneHas) {
  EXPECT_THAT(Run(SumWarp), IsEmpty());

  EXPECT_EQ(y_[0], 31 * 16);
  EXPECT_EQ(y_[40], 31 * 16 + 32 * 32);
  EXPECT_EQ(y_[95], 31 * 16 + 64 * 32);
}

TEST_F(BlockTest, ThreadsThatWaitAtDifferentBarriersAreNamed) {
  EXPECT_THAT(Run(WaitApart),
              AllOf(HasSubstr("waits at block_test.cc:"), HasSubstr(", ")));
}

TEST_F(BlockTest, AShuffleThatAThreadOfItsMaskDoesNotComeToIsNamed) {
  EXPECT_THAT(Run(ShuffleInHalfAWarp), HasSubstr("has ended"));
}

TEST_F(BlockTest, AShuffleFromALaneOutsideItsMaskIsNamed) {
  EXPECT_THAT(Run(ShuffleOutOfTheMask), HasSubstr("waits at block_test.cc:"));
}

#ifndef __SANITIZE_ADDRESS__
TEST_F(BlockTest, SharedMemoryHoldsNothingOfTheBlockBefore) {
  EXPECT_THAT(Run(ReadUnwritten), IsEmpty());
  EXPECT_THAT(Run(ReadUnwritten), IsEmpty());

  for (float value : y_) EXPECT_TRUE(std::isnan(value));
}
#endif

// --- The runtime -----------------------------------------------------------

class RuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    Reset();
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
              cudaSuccess);
    ASSERT_EQ(cudaMalloc(&device_, 4 * kThreads), cudaSuccess);
  }
  void TearDown() override {
    Reset();
    cudaFree(device_);
    cudaStreamDestroy(stream_);
  }

  std::vector<float> host_ = std::vector<float>(kThreads, 1);
  void* device_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

TEST_F(RuntimeTest, MemoryBeginsAsNaNs) {
  cudaMemcpyAsync(host_.data(), device_, 4 * kThreads, cudaMemcpyDeviceToHost,
                  stream_);
  cudaStreamSynchronize(stream_);

  for (float value : host_) EXPECT_TRUE(std::isnan(value));
}

TEST_F(RuntimeTest, NothingHappensBeforeSomebodyWaits) {
  cudaMemsetAsync(device_, 0, 4 * kThreads, stream_);
  cudaMemcpyAsync(host_.data(), device_, 4 * kThreads, cudaMemcpyDeviceToHost,
                  stream_);
  EXPECT_THAT(host_, Each(1));

  cudaStreamSynchronize(stream_);

  EXPECT_THAT(host_, Each(0));
}

TEST_F(RuntimeTest, AHostThatTouchesDeviceMemoryDies) {
  EXPECT_DEATH(*static_cast<volatile float*>(device_) = 1, "");
}

TEST_F(RuntimeTest, ABlockThatIsStuckBreaksTheDevice) {
  cudaLaunchConfig_t config;
  config.gridDim = dim3(1);
  config.blockDim = dim3(kThreads);
  config.stream = stream_;
  const auto* x = static_cast<const float*>(device_);

  EXPECT_EQ(cudaLaunchKernelEx(&config, WaitApart, x, nullptr), cudaSuccess);

  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaMemsetAsync(device_, 0, 4, stream_), cudaErrorLaunchFailure);
  EXPECT_THAT(Complaint(), HasSubstr("block_test.cc"));
}

TEST_F(RuntimeTest, AStreamOfAnotherDeviceIsRefused) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);

  EXPECT_EQ(cudaMemsetAsync(device_, 0, 4, stream_),
            cudaErrorInvalidResourceHandle);

  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

}  // namespace
}  // namespace phalanx::cuda_on_cpu
