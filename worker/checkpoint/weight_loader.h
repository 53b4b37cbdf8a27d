#ifndef PHALANX_WORKER_CHECKPOINT_WEIGHT_LOADER_H_
#define PHALANX_WORKER_CHECKPOINT_WEIGHT_LOADER_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/checkpoint/expert_reader.h"
#include "worker/checkpoint/load_jobs.h"
#include "worker/checkpoint/loader.h"
#include "worker/checkpoint/matrix_pieces.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_rules.h"
#include "worker/checkpoint/tensor_table.h"
#include "worker/checkpoint/weights.h"

namespace phalanx {

// The work behind LoadWeights: made, run once and dropped by it. Views of its
// arguments. Load... allocate and note in `jobs_` what is to be copied; the
// copying begins when everything has its memory, on several threads.
class WeightLoader {
 public:
  WeightLoader(const TensorTable& table, const ModelConfig& config,
               const LocalShape& shape, Backend& backend,
               const LoadOptions& options)
      : table_(table),
        config_(config),
        shape_(shape),
        backend_(backend),
        options_(options),
        expert_reader_(table, config, shape) {}

  absl::StatusOr<Weights> Load();

 private:
  // `role` is that of any of its pieces: they are alike in what it decides,
  // which is format and slices.
  struct MatrixSize {
    TensorRole role = TensorRole::kLmHead;
    int64_t rows = 0;
    int64_t cols = 0;
    WeightLayout layout = WeightLayout::kPlain;
    MemoryComponent component = MemoryComponent::kAttention;
  };
  // What a norm's stored weight lacks: the family stores w and means 1 + w.
  enum class Fold : uint8_t { kNothing, kOnePlus };

  absl::Status LoadVocabulary();
  void AddEmbeddingRows(const MatrixPiece& embed);
  absl::Status LoadRotary();
  absl::Status LoadLayer(int layer);
  absl::Status LoadAttention(int layer, AttentionWeights* out);
  absl::Status LoadGdn(int layer, GdnWeights* out);
  // From either layout of files.
  struct GdnPieces {
    std::vector<MatrixPiece> qkvz;  // Rows q | k | v | z.
    std::vector<MatrixPiece> ba;    // Rows b | a.
  };
  GdnPieces InProjPieces(int layer);
  // Rows that are stored key head by key head, `sizes` of each part: a piece a
  // part.
  std::vector<MatrixPiece> PartsByKeyHead(TensorRole role, int layer,
                                          std::initializer_list<int64_t> sizes);
  absl::Status LoadMoe(int layer, MoeWeights* out);
  absl::Status LoadMlp(int layer, MlpWeights* out);
  absl::Status LoadExperts(int layer, MoeWeights* out);

  // This rank's piece of a tensor.
  MatrixPiece Piece(TensorRole role, int layer) const;
  // The tensor's slice in f32, in the backend's memory, at once.
  absl::Status LoadPlain(TensorRole role, int layer, Fold fold, Tensor* out);
  // One matrix made of the pieces below each other, counted as part of the
  // rank's share; `out` must stay where it is.
  absl::Status LoadPacked(absl::string_view what, MatrixSize size,
                          std::span<const MatrixPiece> pieces,
                          PackedWeight* out);
  absl::StatusOr<void*> AllocatePlain(int64_t bytes, MemoryComponent component,
                                      absl::string_view what);

  const TensorTable& table_;
  const ModelConfig& config_;
  const LocalShape& shape_;
  Backend& backend_;
  const LoadOptions options_;
  const ExpertReader expert_reader_;
  Weights weights_;
  LoadJobs jobs_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_WEIGHT_LOADER_H_
