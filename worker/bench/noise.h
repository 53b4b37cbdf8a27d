#ifndef PHALANX_WORKER_BENCH_NOISE_H_
#define PHALANX_WORKER_BENCH_NOISE_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace phalanx {

// Seeded random values, uniform in [-scale, scale]: what a cache or an operand
// holds does not change what it costs, as long as it is neither denormal nor
// infinite.
class Noise {
 public:
  Noise(uint32_t seed, float scale);

  // Writes a contiguous tensor of f32 or bf16: a pattern that repeats.
  void Fill(Backend& backend, Tensor to) const;

 private:
  std::vector<float> wide_;
  std::vector<uint16_t> narrow_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_NOISE_H_
