#ifndef PHALANX_WORKER_BENCH_ROOFS_H_
#define PHALANX_WORKER_BENCH_ROOFS_H_

// What a machine can do, and what that allows. Pure; any thread.

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/weight_format.h"

namespace phalanx {

// What some cores of the machine can do at a moment. 0: they have no such
// instruction, or nobody looked.
struct Roofs {
  double read = 0;      // Bytes a second, from memory that no cache holds.
  double f32_fma = 0;   // Operations a second, two for a multiply-add; as all.
  double bf16_dot = 0;  // Of bf16 by bf16, summed in f32.
  double int8_dot = 0;  // Of u8 by s8, summed in i32.

  // The faster way to multiply bf16.
  double bf16_peak() const { return f32_fma > bf16_dot ? f32_fma : bf16_dot; }
};

inline constexpr std::array<double Roofs::*, 4> kRoofFields = {
    &Roofs::read, &Roofs::f32_fma, &Roofs::bf16_dot, &Roofs::int8_dot};

// Between the two.
Roofs MeanOf(const Roofs& a, const Roofs& b);

// `looked`, and what it has not from `other`.
Roofs CompletedBy(const Roofs& looked, const Roofs& other);

// All that is told of a machine.
struct MachineRoofs {
  Roofs one;  // Thread.
  Roofs all;  // Threads.
  // A cache line from one core to another and back; 0 where there is only one.
  double ping_pong_seconds = 0;
};

// The operations that bound a piece of work beside its bytes.
enum class Peak : uint8_t {
  kNone,  // Its bytes alone do.
  kF32,   // Multiply-adds of f32.
  kBf16,  // The faster way to multiply bf16.
  kInt8,  // The dot product of int8.
};

// What products with weights of this format are held against.
Peak PeakFor(WeightFormat format);

// 0 of kNone, and where the machine has no such instruction.
double PeakOf(Peak peak, const Roofs& roofs);

// The least time that a piece of work takes: the longer of its bytes at the
// read bandwidth and its operations at the peak. None where the machine has no
// such instruction.
std::optional<double> LeastSeconds(double bytes, double flops, Peak peak,
                                   const Roofs& roofs);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_ROOFS_H_
