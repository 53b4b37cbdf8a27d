#include "worker/plan/shares.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "common/units.h"
#include "kernels/packed_weight.h"
#include "worker/checkpoint/tensor_names.h"
#include "worker/checkpoint/tensor_rules.h"

namespace phalanx {
namespace {

using enum TensorRole;

constexpr int64_t kBf16Bytes = 2;
constexpr int64_t kFp8Block = 128;

int64_t CountLayers(const ModelConfig& config, LayerKind kind) {
  return std::count(config.layer_types.begin(), config.layer_types.end(), kind);
}

// The piece of a tensor that a rank holds, of all its dimensions but the last
// and of the last.
struct Piece {
  int64_t rows = 1;
  int64_t cols = 1;
  // Of scales that it touches; one that two ranks share counts for both.
  int64_t fp8_blocks = 1;

  int64_t elements() const { return rows * cols; }
};

Piece PieceOf(TensorRole role, const ModelConfig& config,
              const LocalShape& local) {
  const std::vector<int64_t> shape = ExpectedShape(role, config);
  const TensorSlice slice = SliceOf(role, config, local);
  const int last = static_cast<int>(shape.size()) - 1;
  Piece piece;
  for (int dim = 0; dim <= last; ++dim) {
    const Range whole{0, shape[static_cast<size_t>(dim)]};
    const std::vector<Range> ranges =
        slice.dim == dim ? slice.ranges : std::vector<Range>{whole};
    int64_t elements = 0;
    int64_t blocks = 0;
    for (const Range& range : ranges) {
      elements += range.size();
      blocks += CeilDivide(range.end, kFp8Block) - range.begin / kFp8Block;
    }
    (dim == last ? piece.cols : piece.rows) *= elements;
    piece.fp8_blocks *= blocks;
  }
  return piece;
}

// Counts one rank's slices of tensors.
class Counter {
 public:
  Counter(const ModelConfig& config, const LocalShape& local, HeldFormat format)
      : config_(config), local_(local), format_(format) {}

  // Matrices that are held in the format.
  int64_t Matrices(std::initializer_list<TensorRole> roles) const {
    int64_t bytes = 0;
    for (const TensorRole role : roles) bytes += Matrix(role);
    return bytes;
  }

  // Tensors that are never quantised.
  int64_t Plain(std::initializer_list<TensorRole> roles,
                int64_t element_bytes = kBf16Bytes) const {
    int64_t bytes = 0;
    for (const TensorRole role : roles)
      bytes += PieceOf(role, config_, local_).elements() * element_bytes;
    return bytes;
  }

 private:
  int64_t Matrix(TensorRole role) const {
    const Piece piece = PieceOf(role, config_, local_);
    if (format_ == HeldFormat::kFp8)
      return piece.elements() + piece.fp8_blocks * kBf16Bytes;
    return WeightShape{.rows = piece.rows,
                       .cols = piece.cols,
                       .format = static_cast<WeightFormat>(format_),
                       .slices = SlicesOf(role, local_)}
        .share_bytes();
  }

  const ModelConfig& config_;
  const LocalShape& local_;
  const HeldFormat format_;
};

}  // namespace

static_assert(static_cast<int>(HeldFormat::kBf16) ==
                  static_cast<int>(WeightFormat::kBf16) &&
              static_cast<int>(HeldFormat::kInt8) ==
                  static_cast<int>(WeightFormat::kInt8) &&
              static_cast<int>(HeldFormat::kInt4) ==
                  static_cast<int>(WeightFormat::kInt4));

const char* HeldFormatName(HeldFormat format) {
  return format == HeldFormat::kFp8
             ? "fp8"
             : WeightFormatName(static_cast<WeightFormat>(format));
}

HeldFormat HeldAs(WeightFormat format) {
  return static_cast<HeldFormat>(format);
}

GdnVectorBytes GdnVectorBytesOf(const Checkpoint& checkpoint) {
  GdnVectorBytes bytes = {.a_log = 0, .dt_bias = 0, .norm = 0};
  for (const StoredTensor* tensor : checkpoint.tensors()) {
    const std::optional<TensorId> id = ParseTensorName(tensor->name);
    if (!id.has_value() || id->mtp) continue;
    const int64_t size = tensor->type == StoredType::kF32 ? 4 : 2;
    int64_t* const known = id->role == kALog      ? &bytes.a_log
                           : id->role == kDtBias  ? &bytes.dt_bias
                           : id->role == kGdnNorm ? &bytes.norm
                                                  : nullptr;
    if (known != nullptr) *known = std::max(*known, size);
  }
  return bytes;
}

namespace {

// The head beside the embedding.
int64_t HeadBytes(const ModelConfig& config, const LocalShape& local,
                  const WeightTypes& types) {
  const bool quantised =
      types.format == HeldFormat::kInt8 || types.format == HeldFormat::kInt4;
  if (config.tie_word_embeddings && !quantised) return 0;
  const Counter count(config, local, types.format);
  return quantised ? count.Matrices({kLmHead}) : count.Plain({kLmHead});
}

}  // namespace

NonExpertShare NonExpertShareOf(const ModelConfig& config,
                                const LocalShape& local,
                                const WeightTypes& types) {
  const Counter count(config, local, types.format);
  const int64_t layers = config.num_layers();
  NonExpertShare share;
  share.vocabulary = count.Plain({kEmbed}) + HeadBytes(config, local, types);
  share.attention = CountLayers(config, LayerKind::kFullAttention) *
                    (count.Matrices({kQProj, kKProj, kVProj, kOProj}) +
                     count.Plain({kQNorm, kKNorm}));
  share.gdn = CountLayers(config, LayerKind::kLinearAttention) *
              (count.Matrices({kInProjQkv, kInProjZ, kOutProj}) +
               count.Plain({kInProjB, kInProjA, kConv}) +
               count.Plain({kALog}, types.gdn.a_log) +
               count.Plain({kDtBias}, types.gdn.dt_bias) +
               count.Plain({kGdnNorm}, types.gdn.norm));
  if (config.has_experts()) {
    share.shared_experts =
        layers *
        count.Matrices({kSharedGateProj, kSharedUpProj, kSharedDownProj});
    share.routers = layers * count.Plain({kRouter, kSharedExpertGate});
  } else {
    share.mlp =
        layers * count.Matrices({kMlpGateProj, kMlpUpProj, kMlpDownProj});
  }
  share.norms = layers * count.Plain({kInputNorm, kPostAttentionNorm}) +
                count.Plain({kFinalNorm});
  return share;
}

int64_t ExpertBytes(const ModelConfig& config, const LocalShape& local,
                    HeldFormat format) {
  if (!config.has_experts()) return 0;
  return Counter(config, local, format)
      .Matrices({kExpertGate, kExpertUp, kExpertDown});
}

int64_t KvTokenBytes(const ModelConfig& config, const LocalShape& local,
                     DType activations) {
  return CountLayers(config, LayerKind::kFullAttention) * 2 * local.kv_heads *
         config.head_dim * ElementBytes(activations);
}

int64_t StateBytes(const ModelConfig& config, const LocalShape& local,
                   DType activations) {
  const int64_t state = local.gdn_value_heads * config.linear_value_head_dim *
                        config.linear_key_head_dim * 4;
  const int64_t window = (config.linear_conv_kernel_dim - 1) *
                         local.conv_channels * ElementBytes(activations);
  return CountLayers(config, LayerKind::kLinearAttention) * (state + window);
}

}  // namespace phalanx
