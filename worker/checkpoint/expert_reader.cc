#include "worker/checkpoint/expert_reader.h"

#include "worker/checkpoint/mapped_file.h"
#include "worker/checkpoint/table_pieces.h"

namespace phalanx {

using enum TensorRole;

MatrixPiece ExpertReader::Piece(TensorRole fused_role, TensorRole role,
                                int layer, int expert) const {
  if (table_.fused_experts(layer))
    return TablePiece(table_, config_, shape_,
                      {.role = fused_role, .layer = layer}, expert);
  return TablePiece(table_, config_, shape_,
                    {.role = role, .layer = layer, .expert = expert});
}

std::vector<MatrixPiece> ExpertReader::GateUpPieces(int layer,
                                                    int expert) const {
  if (table_.fused_experts(layer))
    return {Piece(kExpertsGateUp, kExpertGate, layer, expert)};
  return {Piece(kExpertsGateUp, kExpertGate, layer, expert),
          Piece(kExpertsGateUp, kExpertUp, layer, expert)};
}

std::vector<MatrixPiece> ExpertReader::DownPieces(int layer, int expert) const {
  return {Piece(kExpertsDown, kExpertDown, layer, expert)};
}

void ExpertReader::PackGateUp(int layer, int expert, Backend& backend,
                              int64_t index, PackedWeight& weight,
                              std::vector<uint16_t>* scratch) const {
  PackPieces(GateUpPieces(layer, expert), backend, index, weight, scratch);
}

void ExpertReader::PackDown(int layer, int expert, Backend& backend,
                            int64_t index, PackedWeight& weight,
                            std::vector<uint16_t>* scratch) const {
  PackPieces(DownPieces(layer, expert), backend, index, weight, scratch);
}

template <typename Hint>
void ExpertReader::ForEachRun(int layer, int expert, Hint hint) const {
  for (const auto& pieces :
       {GateUpPieces(layer, expert), DownPieces(layer, expert)}) {
    for (const MatrixPiece& piece : pieces) {
      hint(piece.data);
      if (!piece.scales.empty()) hint(piece.scales);
    }
  }
}

void ExpertReader::WillNeed(int layer, int expert) const {
  ForEachRun(layer, expert, MappedFile::WillNeedPages);
}

void ExpertReader::Drop(int layer, int expert) const {
  ForEachRun(layer, expert, MappedFile::DropPages);
}

}  // namespace phalanx
