#ifndef PHALANX_WORKER_CHECKPOINT_EXPERT_READER_H_
#define PHALANX_WORKER_CHECKPOINT_EXPERT_READER_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "worker/checkpoint/matrix_pieces.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_rules.h"
#include "worker/checkpoint/tensor_table.h"

namespace phalanx {

// One rank's share of routed experts, from fused tensors or single ones, bf16,
// block-FP8 or codes. Views of the checkpoint, which outlives it. Any thread,
// several at once with scratch of their own.
class ExpertReader {
 public:
  // `table` must have been matched for `config`; all three outlive this.
  ExpertReader(const TensorTable& table, const ModelConfig& config,
               const LocalShape& shape)
      : table_(table), config_(config), shape_(shape) {}

  // Fills matrix `index` of a weight [2 expert_width, H] with rows gate | up,
  // or of one [H, expert_width]. `scratch` is overwritten.
  void PackGateUp(int layer, int expert, Backend& backend, int64_t index,
                  PackedWeight& weight, std::vector<uint16_t>* scratch) const;
  void PackDown(int layer, int expert, Backend& backend, int64_t index,
                PackedWeight& weight, std::vector<uint16_t>* scratch) const;

  // Hints to the system: these pages will be read soon, or never again.
  void WillNeed(int layer, int expert) const;
  void Drop(int layer, int expert) const;

 private:
  std::vector<MatrixPiece> GateUpPieces(int layer, int expert) const;
  std::vector<MatrixPiece> DownPieces(int layer, int expert) const;
  // hint(bytes) for all that one expert is read from.
  template <typename Hint>
  void ForEachRun(int layer, int expert, Hint hint) const;
  MatrixPiece Piece(TensorRole fused_role, TensorRole role, int layer,
                    int expert) const;

  const TensorTable& table_;
  const ModelConfig& config_;
  const LocalShape& shape_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_EXPERT_READER_H_
