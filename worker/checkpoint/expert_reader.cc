#include "worker/checkpoint/expert_reader.h"

#include "worker/checkpoint/mapped_file.h"

namespace phalanx {

using enum TensorRole;

MatrixPiece ExpertReader::Piece(TensorRole fused_role, TensorRole role,
                                int layer, int expert) const {
  if (table_.fused_experts(layer))
    return MakePiece(table_.at(fused_role, layer), nullptr,
                     SliceOf(fused_role, config_, shape_), expert);
  return MakePiece(table_.at(role, layer, expert),
                   table_.scales(role, layer, expert),
                   SliceOf(role, config_, shape_));
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

const uint16_t* ExpertReader::GateUp(int layer, int expert,
                                     std::vector<uint16_t>* scratch) const {
  return Assemble(GateUpPieces(layer, expert), 2 * shape_.expert_width,
                  config_.hidden_size, scratch);
}

const uint16_t* ExpertReader::Down(int layer, int expert,
                                   std::vector<uint16_t>* scratch) const {
  return Assemble(DownPieces(layer, expert), config_.hidden_size,
                  shape_.expert_width, scratch);
}

void ExpertReader::WillNeed(int layer, int expert) const {
  for (const MatrixPiece& piece : GateUpPieces(layer, expert))
    MappedFile::WillNeedPages(piece.data);
  for (const MatrixPiece& piece : DownPieces(layer, expert))
    MappedFile::WillNeedPages(piece.data);
}

void ExpertReader::Drop(int layer, int expert) const {
  for (const MatrixPiece& piece : GateUpPieces(layer, expert))
    MappedFile::DropPages(piece.data);
  for (const MatrixPiece& piece : DownPieces(layer, expert))
    MappedFile::DropPages(piece.data);
}

}  // namespace phalanx
