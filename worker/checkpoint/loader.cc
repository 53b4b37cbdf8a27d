#include "worker/checkpoint/loader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status.h"
#include "worker/checkpoint/mapped_file.h"
#include "worker/checkpoint/weight_loader.h"

namespace phalanx {

using enum TensorRole;

namespace {

// Of the vectors that LoadPlain reads.
MemoryComponent ComponentOf(TensorRole role) {
  switch (role) {
    case kConv:
    case kALog:
    case kDtBias:
    case kGdnNorm:
      return MemoryComponent::kGdn;
    case kQNorm:
    case kKNorm:
      return MemoryComponent::kAttention;
    default:
      return MemoryComponent::kNorm;
  }
}

}  // namespace

absl::StatusOr<Weights> LoadWeights(const Checkpoint& checkpoint,
                                    const ModelConfig& config,
                                    const LocalShape& shape, Backend& backend,
                                    const LoadOptions& options) {
  ASSIGN_OR_RETURN(const TensorTable table,
                   TensorTable::Match(checkpoint, config));
  return WeightLoader(table, config, shape, backend, options).Load();
}

absl::StatusOr<Weights> WeightLoader::Load() {
  RETURN_IF_ERROR(LoadVocabulary());
  weights_.layers.resize(static_cast<size_t>(config_.num_layers()));
  for (int layer = 0; layer < config_.num_layers(); ++layer)
    RETURN_IF_ERROR(LoadLayer(layer));
  RETURN_IF_ERROR(LoadPlain(kFinalNorm, -1, Fold::kOnePlus, &weights_.norm));
  RETURN_IF_ERROR(LoadRotary());
  RETURN_IF_ERROR(jobs_.Run(options_.run));
  RETURN_IF_ERROR(backend_.Synchronize());
  return std::move(weights_);
}

absl::Status WeightLoader::LoadVocabulary() {
  const int64_t rows = shape_.vocab_rows;
  const int64_t hidden = config_.hidden_size;
  const MatrixPiece embed = Piece(kEmbed, -1);
  ASSIGN_OR_RETURN(void* data,
                   AllocatePlain(rows * hidden * 2, MemoryComponent::kEmbedding,
                                 "embed_tokens"));
  weights_.embed = MakeTensor(data, DType::kBf16, rows, hidden);
  weights_.non_expert_bytes += embed.piece_bytes();
  AddEmbeddingRows(embed);
  const MatrixPiece lm_head =
      config_.tie_word_embeddings ? embed : Piece(kLmHead, -1);
  RETURN_IF_ERROR(LoadPacked("lm_head",
                             {.role = kLmHead,
                              .rows = rows,
                              .cols = hidden,
                              .component = MemoryComponent::kLmHead},
                             {&lm_head, 1}, &weights_.lm_head));
  // Tied weights of one format are one tensor of the file: counted once, and
  // held in both layouts.
  if (config_.tie_word_embeddings && options_.format == WeightFormat::kBf16)
    weights_.non_expert_bytes -= embed.piece_bytes();
  return absl::OkStatus();
}

// Some at a time, so that progress shows and read pages do not gather. Padding
// stays as allocated: zero.
void WeightLoader::AddEmbeddingRows(const MatrixPiece& embed) {
  constexpr int64_t kStepBytes = 16 << 20;
  const Range owned = embed.ranges[0];
  const int64_t row_bytes = config_.hidden_size * 2;
  const int64_t step = std::max<int64_t>(1, kStepBytes / row_bytes);
  for (int64_t row = 0; row < owned.size(); row += step) {
    const int64_t count = std::min(step, owned.size() - row);
    const std::span<const std::byte> bytes =
        embed.data.subspan(static_cast<size_t>((owned.begin + row) * row_bytes),
                           static_cast<size_t>(count * row_bytes));
    jobs_.AddForCaller(count * row_bytes, [this, bytes, row, count] {
      backend_.Upload(bytes.data(), Rows(weights_.embed, row, count));
      MappedFile::DropPages(bytes);
    });
  }
}

absl::Status WeightLoader::LoadRotary() {
  const int64_t count = config_.rotary_dim / 2;
  std::vector<float> inv_freq;
  for (int64_t i = 0; i < count; ++i)
    inv_freq.push_back(static_cast<float>(std::pow(
        config_.rope_theta, -2.0 * static_cast<double>(i) /
                                static_cast<double>(config_.rotary_dim))));
  ASSIGN_OR_RETURN(
      void* data,
      AllocatePlain(count * 4, MemoryComponent::kAttention, "inv_freq"));
  weights_.inv_freq = MakeTensor(data, DType::kF32, count);
  backend_.Upload(inv_freq.data(), weights_.inv_freq);
  return absl::OkStatus();
}

absl::Status WeightLoader::LoadLayer(int layer) {
  LayerWeights& out = weights_.layers[static_cast<size_t>(layer)];
  RETURN_IF_ERROR(
      LoadPlain(kInputNorm, layer, Fold::kOnePlus, &out.mixer_norm));
  RETURN_IF_ERROR(LoadPlain(kPostAttentionNorm, layer, Fold::kOnePlus,
                            &out.feed_forward_norm));
  if (config_.layer_types[static_cast<size_t>(layer)] ==
      LayerKind::kFullAttention) {
    RETURN_IF_ERROR(
        LoadAttention(layer, &out.mixer.emplace<AttentionWeights>()));
  } else {
    RETURN_IF_ERROR(LoadGdn(layer, &out.mixer.emplace<GdnWeights>()));
  }
  if (!config_.has_experts())
    return LoadMlp(layer, &out.feed_forward.emplace<MlpWeights>());
  return LoadMoe(layer, &out.feed_forward.emplace<MoeWeights>());
}

MatrixPiece WeightLoader::Piece(TensorRole role, int layer) const {
  return MakePiece(table_.at(role, layer), table_.scales(role, layer, -1),
                   SliceOf(role, config_, shape_));
}

absl::Status WeightLoader::LoadPlain(TensorRole role, int layer, Fold fold,
                                     Tensor* out) {
  const StoredTensor& tensor = table_.at(role, layer);
  std::vector<float> values = ReadF32(tensor, SliceOf(role, config_, shape_));
  const int64_t count = static_cast<int64_t>(values.size());
  weights_.non_expert_bytes +=
      count * (tensor.type == StoredType::kF32 ? 4 : 2);
  if (fold == Fold::kOnePlus)
    for (float& value : values) value += 1.0f;
  ASSIGN_OR_RETURN(void* data,
                   AllocatePlain(count * 4, ComponentOf(role), tensor.name));
  // The convolution is a matrix, all else a vector.
  *out = role == kConv ? MakeTensor(data, DType::kF32,
                                    count / config_.linear_conv_kernel_dim,
                                    config_.linear_conv_kernel_dim)
                       : MakeTensor(data, DType::kF32, count);
  backend_.Upload(values.data(), *out);
  MappedFile::DropPages(tensor.data);
  return absl::OkStatus();
}

absl::Status WeightLoader::LoadPacked(absl::string_view what, MatrixSize size,
                                      std::span<const MatrixPiece> pieces,
                                      PackedWeight* out) {
  const WeightShape shape = {.rows = size.rows,
                             .cols = size.cols,
                             .layout = size.layout,
                             .format = MayBeQuantised(size.role)
                                           ? options_.format
                                           : WeightFormat::kBf16,
                             .slices = SlicesOf(size.role, shape_)};
  ASSIGN_OR_RETURN(*out, backend_.AllocateWeight(shape, size.component, what));
  // Without the rows that pad a vocabulary.
  WeightShape stored = shape;
  stored.rows = 0;
  for (const MatrixPiece& piece : pieces) stored.rows += piece.piece_rows();
  weights_.non_expert_bytes += stored.share_bytes();
  jobs_.Add(shape.rows * shape.cols * 2,
            [this, out, pieces = std::vector(pieces.begin(), pieces.end())](
                LoadJobs::Scratch* scratch) {
              backend_.PackWeight(
                  Assemble(pieces, out->rows, out->cols, scratch), 0, *out);
              for (const MatrixPiece& piece : pieces)
                MappedFile::DropPages(piece.data);
            });
  return absl::OkStatus();
}

absl::StatusOr<void*> WeightLoader::AllocatePlain(int64_t bytes,
                                                  MemoryComponent component,
                                                  absl::string_view what) {
  ASSIGN_OR_RETURN(Buffer buffer, backend_.Allocate(bytes, component, what));
  weights_.storage.push_back(std::move(buffer));
  return weights_.storage.back().data();
}

}  // namespace phalanx
