#include "tests/worker/checkpoint/packed_bytes.h"

#include <variant>

#include "common/status.h"
#include "tests/worker/checkpoint/fake_backend.h"
#include "worker/checkpoint/loader.h"

namespace phalanx {

std::string BytesOf(const PackedWeight& weight, int64_t first_row,
                    int64_t rows) {
  return std::string(static_cast<const char*>(weight.storage.data()) +
                         first_row * weight.cols * 2,
                     static_cast<size_t>(rows * weight.cols * 2));
}

std::string BytesOf(const PackedWeight& weight) {
  return BytesOf(weight, 0, weight.count * weight.rows);
}

std::vector<std::string> PackedBytes(const Weights& weights) {
  std::vector<std::string> packed;
  const auto add = [&](std::initializer_list<const PackedWeight*> matrices) {
    for (const PackedWeight* matrix : matrices)
      packed.push_back(BytesOf(*matrix));
  };
  for (const LayerWeights& layer : weights.layers) {
    if (const auto* gdn = std::get_if<GdnWeights>(&layer.mixer)) {
      add({&gdn->in_proj, &gdn->ba_proj, &gdn->out_proj});
    } else {
      const auto& attention = std::get<AttentionWeights>(layer.mixer);
      add({&attention.qgkv, &attention.o});
    }
    if (const auto* mlp = std::get_if<MlpWeights>(&layer.feed_forward)) {
      add({&mlp->gate_up, &mlp->down});
    } else {
      const auto& moe = std::get<MoeWeights>(layer.feed_forward);
      add({&moe.router, &moe.experts_gate_up, &moe.experts_down,
           &moe.shared_gate_up, &moe.shared_down, &moe.shared_gate});
    }
  }
  return packed;
}

absl::StatusOr<std::vector<std::string>> LoadPacked(const TensorSpecs& tensors,
                                                    const std::string& config,
                                                    int rank, int tp_size) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
  ASSIGN_OR_RETURN(const ModelConfig parsed, ParseModelConfig(config));
  ASSIGN_OR_RETURN(const LocalShape shape,
                   MakeLocalShape(parsed, rank, tp_size));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                   Checkpoint::Open(folder.path()));
  FakeBackend backend;
  ASSIGN_OR_RETURN(const Weights weights,
                   LoadWeights(checkpoint, parsed, shape, backend));
  return PackedBytes(weights);
}

}  // namespace phalanx
