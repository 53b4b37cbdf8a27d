#ifndef PHALANX_WORKER_CHECKPOINT_EXPERT_SHAPES_H_
#define PHALANX_WORKER_CHECKPOINT_EXPERT_SHAPES_H_

#include <cstdint>

#include "kernels/packed_weight.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {

// `count` routed experts of one rank, as two stacks of matrices.
struct ExpertShapes {
  WeightShape gate_up;  // kGateUp [2 expert_width, H].
  WeightShape down;     // kPlain [H, expert_width]; sliced.

  int64_t share_bytes() const {
    return gate_up.share_bytes() + down.share_bytes();
  }
};

inline ExpertShapes ExpertShapesOf(const ModelConfig& config,
                                   const LocalShape& local, WeightFormat format,
                                   int64_t count) {
  return {.gate_up = {.count = count,
                      .rows = 2 * local.expert_width,
                      .cols = config.hidden_size,
                      .layout = WeightLayout::kGateUp,
                      .format = format},
          .down = {.count = count,
                   .rows = config.hidden_size,
                   .cols = local.expert_width,
                   .format = format,
                   .slices = local.moe_slices}};
}

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_EXPERT_SHAPES_H_
