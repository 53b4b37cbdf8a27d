#ifndef PHALANX_WORKER_CHECKPOINT_TABLE_PIECES_H_
#define PHALANX_WORKER_CHECKPOINT_TABLE_PIECES_H_

// From the tensors of a checkpoint to a backend's matrices, whatever they are
// stored in.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "worker/checkpoint/matrix_pieces.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_table.h"

namespace phalanx {

// One rank's piece of a tensor of `table`, which is of `config`; `index` is the
// matrix of a stack.
MatrixPiece TablePiece(const TensorTable& table, const ModelConfig& config,
                       const LocalShape& shape, const TensorId& id,
                       int64_t index = 0);

// Fills matrix `index` of `weight` with the pieces below each other, and what
// they do not fill with zeros. Codes must be of the weight's own format; all
// else is packed from bf16. `scratch` is overwritten.
void PackPieces(std::span<const MatrixPiece> pieces, Backend& backend,
                int64_t index, PackedWeight& weight,
                std::vector<uint16_t>* scratch);

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_TABLE_PIECES_H_
