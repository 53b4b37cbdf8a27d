#ifndef PHALANX_TESTS_BENCH_SYNTHETIC_MODEL_H_
#define PHALANX_TESTS_BENCH_SYNTHETIC_MODEL_H_

// A made-up model of the family: the sizes of a release's layers, fewer of
// them, and numbers of the scale that training leaves (model_spec.md 3).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/synthetic_numbers.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {

// By default four layers of Qwen3.5-35B-A3B: three of the delta net, one that
// attends. Named as config.json names them, where that is not plain.
struct SyntheticModel {
  int64_t layers = 4;  // Every fourth attends.
  int64_t hidden = 2048;
  int64_t vocab = 248320;
  int64_t context = 262144;  // max_position_embeddings.
  int64_t heads = 16;
  int64_t kv_heads = 2;
  int64_t head_dim = 256;
  int64_t gdn_key_heads = 16;
  int64_t gdn_value_heads = 32;
  int64_t gdn_head_dim = 128;
  int64_t experts = 256;
  int64_t experts_per_token = 8;
  int64_t expert_width = 512;  // Of the shared expert, too.
  bool fp8 = false;  // Block-FP8, one tensor an expert; else bf16 and fused.
  uint64_t seed = 1;
};

// Of the nested dialect. INVALID_ARGUMENT for sizes that no checkpoint may
// have, in the words of ParseModelConfig.
absl::StatusOr<std::string> SyntheticConfigJson(const SyntheticModel& model);

struct SyntheticTensor {
  std::string name;
  StoredType type = StoredType::kBf16;
  std::vector<int64_t> shape;
  NumberLaw law;
  int64_t bytes = 0;
};

// All that the language model has, in the order of the files. `config` is what
// ParseModelConfig made of the model's JSON.
//
// Matrices have the deviation 1/sqrt(fan in), the head twice that: logits with
// a deviation of 2. Zero-centred norms are near 0, the delta net's near 1.
std::vector<SyntheticTensor> ListSyntheticTensors(const ModelConfig& config);

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_SYNTHETIC_MODEL_H_
