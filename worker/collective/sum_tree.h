#ifndef PHALANX_WORKER_COLLECTIVE_SUM_TREE_H_
#define PHALANX_WORKER_COLLECTIVE_SUM_TREE_H_

#include <cstdint>
#include <span>

namespace phalanx {

// The largest group, and so the most planes that are ever added.
inline constexpr int kMaxRanks = 16;

// True for the sizes that a group may have: 1, 2, 4, 8, 16.
constexpr bool IsGroupSize(int size) {
  return size >= 1 && size <= kMaxRanks && (size & (size - 1)) == 0;
}

// out[i] = the sum of planes[0..N)[i], neighbours in pairs, ((0+1)+(2+3))+...,
// in f32: the one arithmetic of every all-reduce (design.md section 3, rule 1).
// Each element is a chain of its own, so the bits depend neither on `count` nor
// on the width of the vector unit.
//   planes  N = 1, 2, 4, 8 or 16 arrays of `count` f32; may overlap each other
//   out     `count` elements; apart from every plane, or, in f32, one of them
// In the widest vectors that this processor has. Any thread.
void SumPlanes(std::span<const float* const> planes, int64_t count, float* out);

// The same, rounded once to bf16 (nearest, ties to even).
void SumPlanes(std::span<const float* const> planes, int64_t count,
               uint16_t* out);

// The same in the vectors that every processor of the architecture has: what
// SumPlanes does where there are no wider ones.
void SumPlanesPortably(std::span<const float* const> planes, int64_t count,
                       float* out);
void SumPlanesPortably(std::span<const float* const> planes, int64_t count,
                       uint16_t* out);

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_SUM_TREE_H_
