#ifndef PHALANX_KERNELS_OP_CHECKS_H_
#define PHALANX_KERNELS_OP_CHECKS_H_

// The shape rules of ops.h as code: one function an op, with the op's own
// arguments and the backend's activation type. Every backend calls it first,
// so a wrong shape, type or stride stops at the same place everywhere, with
// the tensor's name in the message. Looks at views only, never at the data
// behind them; costs nanoseconds; any thread.

#include <cstdint>

#include "kernels/packed_weight.h"
#include "kernels/sequences.h"
#include "kernels/tensor.h"

namespace phalanx {

void CheckEmbed(Tensor ids, Tensor table, int64_t first_id, Tensor y,
                DType act);
void CheckSelectOwner(Tensor ids, int64_t rows_per_rank, Tensor gathered,
                      Tensor y, DType act);
void CheckGatherRows(Tensor x, Tensor rows, Tensor y, DType act);
void CheckCopy(Tensor x, Tensor y);

void CheckMatMul(Tensor x, const PackedWeight& w, Tensor y, DType act);
void CheckGateUp(Tensor x, const PackedWeight& w, Tensor y, DType act);
void CheckMatMulSliced(Tensor x, const PackedWeight& w, int slices, Tensor y,
                       DType act);

void CheckRoute(Tensor logits, const Routing& routing);
void CheckExpertsGateUp(Tensor x, const PackedWeight& w, const Routing& routing,
                        Tensor hidden, DType act);
void CheckExpertsDown(Tensor hidden, const PackedWeight& w,
                      const Routing& routing, Tensor shared_hidden,
                      const PackedWeight& shared_w, Tensor shared_gate,
                      int slices, Tensor y, DType act);

void CheckRmsNorm(Tensor x, Tensor w, float eps, Tensor y, DType act);
void CheckGatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps, Tensor y,
                       DType act);
void CheckL2Norm(Tensor x, Tensor y);
void CheckAdd(Tensor a, Tensor b, Tensor y, DType act);
void CheckRound(Tensor x, Tensor y, DType act);
void CheckMulSigmoid(Tensor x, Tensor gate, Tensor y, DType act);

void CheckRope(Tensor positions, Tensor inv_freq, Tensor x, DType act);
void CheckStoreKv(Tensor k, Tensor v, Tensor places, Tensor keys, Tensor values,
                  DType act);
void CheckPagedAttention(Tensor q, Tensor keys, Tensor values,
                         const Sequences& sequences, Tensor y, DType act);

void CheckConvSilu(Tensor x, Tensor w, const Sequences& sequences, Tensor state,
                   Tensor y, DType act);
void CheckGdnGates(Tensor a, Tensor b, Tensor a_log, Tensor dt_bias, Tensor g,
                   Tensor beta, DType act);
void CheckGatedDelta(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                     const Sequences& sequences, Tensor state, Tensor y);

// The same for the calls of Backend that make and fill a weight.
void CheckWeightShape(const WeightShape& shape);
void CheckPackWeight(const uint16_t* host, int64_t index,
                     const PackedWeight& weight);
void CheckPackCodes(const uint8_t* codes, const uint16_t* scales, int64_t index,
                    const PackedWeight& weight);

}  // namespace phalanx

#endif  // PHALANX_KERNELS_OP_CHECKS_H_
