// How fast experts come from a bank into slots, beside memcpy in the same run.
// Makes a checkpoint with experts of the 35B's size (6 MiB) and pack files of
// it in a temporary folder; all is in the page cache when it is measured.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/units.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/checkpoint/digest.h"
#include "worker/experts/expert_slots.h"
#include "worker/experts/mapped_bank.h"
#include "worker/experts/packed_bank.h"

namespace phalanx {
namespace {

constexpr int kExperts = 64;
constexpr int64_t kSlots = 16;
constexpr int kRounds = 7;

constexpr char kConfig[] = R"({
  "architectures": ["Qwen3_5MoeForCausalLM"],
  "model_type": "qwen3_5_moe_text", "dtype": "bfloat16",
  "layer_types": ["full_attention"], "num_hidden_layers": 1,
  "hidden_size": 2048, "vocab_size": 64, "rms_norm_eps": 1e-6,
  "max_position_embeddings": 256, "tie_word_embeddings": true,
  "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 16,
  "linear_num_key_heads": 8, "linear_num_value_heads": 8,
  "linear_key_head_dim": 16, "linear_value_head_dim": 16,
  "linear_conv_kernel_dim": 4, "hidden_act": "silu",
  "rope_parameters": {"rope_type": "default", "rope_theta": 10000,
                      "partial_rotary_factor": 0.5},
  "num_experts": 64, "num_experts_per_tok": 8,
  "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512})";

using enum TensorRole;
const std::pair<TensorRole, const char*> kTensors[] = {
    {kEmbed, "embed_tokens"},
    {kFinalNorm, "norm"},
    {kInputNorm, "layers.0.input_layernorm"},
    {kPostAttentionNorm, "layers.0.post_attention_layernorm"},
    {kQProj, "layers.0.self_attn.q_proj"},
    {kKProj, "layers.0.self_attn.k_proj"},
    {kVProj, "layers.0.self_attn.v_proj"},
    {kOProj, "layers.0.self_attn.o_proj"},
    {kQNorm, "layers.0.self_attn.q_norm"},
    {kKNorm, "layers.0.self_attn.k_norm"},
    {kRouter, "layers.0.mlp.gate"},
    {kSharedGateProj, "layers.0.mlp.shared_expert.gate_proj"},
    {kSharedUpProj, "layers.0.mlp.shared_expert.up_proj"},
    {kSharedDownProj, "layers.0.mlp.shared_expert.down_proj"},
    {kSharedExpertGate, "layers.0.mlp.shared_expert_gate"},
    {kExpertsGateUp, "layers.0.mlp.experts.gate_up_proj"},
    {kExpertsDown, "layers.0.mlp.experts.down_proj"}};

void WriteModel(const TempFolder& folder, const ModelConfig& config) {
  TensorSpecs tensors;
  for (const auto& [role, name] : kTensors) {
    TensorSpec spec{
        .dtype = "BF16", .shape = ExpectedShape(role, config), .data = {}};
    size_t bytes = 2;
    for (const int64_t size : spec.shape) bytes *= static_cast<size_t>(size);
    spec.data.assign(bytes, '\x3c');
    const bool stack = role == kExpertsGateUp || role == kExpertsDown;
    tensors[std::string("model.") + name + (stack ? "" : ".weight")] =
        std::move(spec);
  }
  folder.Write("model.safetensors", SafetensorsBytes(tensors));
}

// GB/s of `bytes` for each of kExperts calls of `fetch`(expert), by `threads`.
double Rate(int threads, int64_t bytes,
            const std::function<void(int expert, int64_t slot)>& fetch) {
  const auto run = [&](int thread) {
    int64_t turn = 0;
    for (int e = thread; e < kExperts; e += threads, ++turn)
      fetch(e, (turn * threads + thread) % kSlots);
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& other : others) other.join();
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  return static_cast<double>(bytes) * kExperts / taken.count() / 1e9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Banks {
  std::unique_ptr<MappedBank> mapped;
  std::unique_ptr<PackedBank> packed;
};

Banks MakeBanks(const TempFolder& folder, const ModelConfig& config,
                const LocalShape& shape, Backend& backend) {
  auto checkpoint = Checkpoint::Open(folder.path());
  CHECK(checkpoint.ok());
  auto packed = PackedBank::Create(*checkpoint, config, shape, backend,
                                   {.dir = folder.path(),
                                    .model_digest = ModelDigest(*checkpoint),
                                    .threads = 2});
  CHECK(packed.ok());
  auto mapped =
      MappedBank::Create(*std::move(checkpoint), config, shape, backend);
  CHECK(mapped.ok());
  return {*std::move(mapped), *std::move(packed)};
}

void Measure(const TempFolder& folder, const ModelConfig& config, int tp_size,
             Backend& backend) {
  const auto shape = MakeLocalShape(config, 0, tp_size);
  CHECK(shape.ok());
  const Banks banks = MakeBanks(folder, config, *shape, backend);
  auto slots = AllocateExpertSlots(
      backend, ExpertShapesOf(config, *shape, WeightFormat::kBf16, kSlots),
      "slots");
  CHECK(slots.ok());
  const int64_t bytes = banks.packed->expert_bytes();
  const std::vector<char> host(static_cast<size_t>(bytes * kExperts), 'h');
  const auto copy = [&](int expert, int64_t slot) {
    const int64_t half = slots->down.matrix_bytes;
    const char* from = host.data() + expert * bytes;
    std::memcpy(static_cast<char*>(slots->gate_up.storage.data()) +
                    slot * (bytes - half),
                from, static_cast<size_t>(bytes - half));
    std::memcpy(static_cast<char*>(slots->down.storage.data()) + slot * half,
                from + bytes - half, static_cast<size_t>(half));
  };
  const auto from = [&](const ExpertBank& bank) {
    return
        [&](int expert, int64_t slot) { bank.Fetch(0, expert, slot, *slots); };
  };
  for (const int threads : {1, 2}) {
    std::vector<double> memcpy_rates, packed_rates, mapped_rates;
    for (int round = 0; round < kRounds; ++round) {
      memcpy_rates.push_back(Rate(threads, bytes, copy));
      packed_rates.push_back(Rate(threads, bytes, from(*banks.packed)));
      mapped_rates.push_back(Rate(threads, bytes, from(*banks.mapped)));
    }
    const double roof = Median(memcpy_rates);
    std::printf(
        "tp=%d expert=%.2f MiB threads=%d memcpy=%.1f GB/s packed=%.1f GB/s "
        "(%.2f) mapped=%.1f GB/s (%.2f)\n",
        tp_size, static_cast<double>(bytes) / kMiB, threads, roof,
        Median(packed_rates), Median(packed_rates) / roof, Median(mapped_rates),
        Median(mapped_rates) / roof);
  }
}

int Run() {
  const auto config = ParseModelConfig(kConfig);
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n",
                 std::string(config.status().message()).c_str());
    return 1;
  }
  CHECK(config->num_experts == kExperts);
  const TempFolder folder;
  WriteModel(folder, *config);
  auto backend = CreateCpuBackend({});
  CHECK(backend.ok());
  for (const int tp_size : {1, 4}) Measure(folder, *config, tp_size, **backend);
  return 0;
}

}  // namespace
}  // namespace phalanx

int main() { return phalanx::Run(); }
