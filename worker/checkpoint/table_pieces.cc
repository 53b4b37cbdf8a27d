#include "worker/checkpoint/table_pieces.h"

#include "common/check.h"
#include "worker/checkpoint/tensor_rules.h"

namespace phalanx {

MatrixPiece TablePiece(const TensorTable& table, const ModelConfig& config,
                       const LocalShape& shape, const TensorId& id,
                       int64_t index) {
  const StoredTensor& tensor = table.at(id.role, id.layer, id.expert);
  const StoredTensor* scales = table.scales(id.role, id.layer, id.expert);
  const TensorSlice slice = SliceOf(id.role, config, shape);
  if (!MayBeQuantised(id.role)) return MakePiece(tensor, scales, slice, index);
  return MakePiece(tensor, scales, slice, index, config.stored_weights,
                   StoredSlicesOf(id.role));
}

void PackPieces(std::span<const MatrixPiece> pieces, Backend& backend,
                int64_t index, PackedWeight& weight,
                std::vector<uint16_t>* scratch) {
  if (pieces[0].format == WeightFormat::kBf16)
    return backend.PackWeight(
        Assemble(pieces, weight.rows, weight.cols, scratch), index, weight);
  CHECK(pieces[0].format == weight.format);
  const AssembledCodes coded =
      AssembleCodes(pieces, weight.rows, weight.cols, scratch);
  backend.PackCodes(coded.codes, coded.scales, index, weight);
}

}  // namespace phalanx
