#ifndef PHALANX_WORKER_MODEL_STEP_H_
#define PHALANX_WORKER_MODEL_STEP_H_

#include "kernels/sequences.h"
#include "kernels/tensor.h"

namespace phalanx {

// The device-side inputs of one forward pass: T tokens of S sequences, of which
// R rows are to be continued. Views of memory that the engine owns; the same on
// every rank.
struct Step {
  Tensor ids;        // [T] i32
  Tensor positions;  // [T] i32; index of the token in its sequence.
  Tensor kv_places;  // [T] i32; block * 64 + position % 64.
  Sequences sequences;
  Tensor logit_rows;  // [R] i32; rows whose logits are wanted.

  int64_t tokens() const { return ids.dims[0]; }
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_STEP_H_
