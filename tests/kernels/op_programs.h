#ifndef PHALANX_TESTS_KERNELS_OP_PROGRAMS_H_
#define PHALANX_TESTS_KERNELS_OP_PROGRAMS_H_

// Every op at model and ragged sizes, in one form, so that a promise that all
// of them make (agreement with the reference, the same bits alone and in
// company, on one thread and on two, with gaps between rows) is one test.

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/kernels/rig.h"

namespace phalanx {

// How far a served backend may be from the reference: so much of the value
// itself, and so much of the root mean square of all values of the part.
struct Tolerance {
  double of_value = 0;
  double of_rms = 0;
};

// What an item yields: one list of numbers for each thing that the op writes.
using Parts = std::vector<Floats>;

// One op at one size. Its items are tokens, or whole sequences for the ops
// that look along them; what item i is depends on i alone.
struct OpProgram {
  std::string name;
  int64_t items = 0;
  std::vector<Tolerance> tolerance;  // Of each part.
  // The op over these items, in this order; the parts of each.
  std::function<std::vector<Parts>(Rig&, const std::vector<int64_t>& items)>
      run;
};

inline std::ostream& operator<<(std::ostream& out, const OpProgram& program) {
  return out << program.name;
}

// All of them; the list is that of the next three together.
std::vector<OpProgram> OpPrograms();
std::vector<OpProgram> RowPrograms();       // op_programs_rows.cc
std::vector<OpProgram> ProductPrograms();   // op_programs_products.cc
std::vector<OpProgram> SequencePrograms();  // op_programs_sequences.cc

// The items first, first + 1, ...
std::vector<int64_t> Range(int64_t first, int64_t count);

// `width` numbers of each item, one item after another.
Floats ItemRows(uint64_t seed, const std::vector<int64_t>& items,
                int64_t width);

// Each item's share of `values`, as its only part.
std::vector<Parts> Split(const Floats& values, size_t items);

// A sum of n f32 terms of random sign in one chain: rounding errors of up to
// kF32Rounding of the partial sums, which grow to the size of the result, add
// up to about sqrt(n) of them; n leaves room for the worst of many outputs.
double Chain(int64_t n);

// Noise whose dot product with a row of noise of that length stays near 1.
Floats WeightNoise(uint64_t seed, int64_t count, int64_t cols);

}  // namespace phalanx

#endif  // PHALANX_TESTS_KERNELS_OP_PROGRAMS_H_
