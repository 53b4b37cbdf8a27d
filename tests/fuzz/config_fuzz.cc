// config.json and generation_config.json: what is accepted has sizes that can
// be computed with.

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "common/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_rules.h"
#include "worker/plan/memory_plan.h"

namespace phalanx {
namespace {

// Shapes and slices of every tensor, on the ends of a group.
void CheckTensors(const ModelConfig& config, int tp_size) {
  for (const int rank : {0, tp_size - 1}) {
    const auto shape = MakeLocalShape(config, rank, tp_size);
    if (!shape.ok()) return;
    for (int r = 0; r <= static_cast<int>(TensorRole::kMtpFc); ++r) {
      const auto role = static_cast<TensorRole>(r);
      int64_t elements = 1;
      for (const int64_t size : ExpectedShape(role, config)) {
        CHECK(size >= 0);
        CHECK(!__builtin_mul_overflow(elements, size, &elements));
      }
      const TensorSlice slice = SliceOf(role, config, *shape);
      CHECK(slice.padding >= 0);
      for (const Range& range : slice.ranges) CHECK(range.size() >= 0);
    }
  }
}

// Overflow anywhere in the plan is for the sanitizer to find.
void CheckPlans(const ModelConfig& config, int tp_size) {
  for (const MoeMode mode : {MoeMode::kResident, MoeMode::kOffload}) {
    const auto plan = PlanMemory(config, {.tp_size = tp_size,
                                          .moe_mode = mode,
                                          .bank = OffloadBank::kFull,
                                          .device_bytes = int64_t{1} << 40});
    if (!plan.ok()) continue;
    CHECK(plan->kv_tokens >= 0);
    CHECK(plan->longest_context <= config.max_position_embeddings);
  }
}

void Read(absl::string_view text) {
  const auto config = ParseModelConfig(text);
  if (config.ok()) {
    CHECK(config->rms_norm_eps > 0);
    CHECK(config->num_layers() > 0);
    for (const int tp_size : {1, 2, 4, 8}) {
      CheckTensors(*config, tp_size);
      CheckPlans(*config, tp_size);
    }
  }
  const auto defaults = ParseGenerationConfig(text, text);
  if (!defaults.ok()) return;
  CHECK(defaults->temperature >= 0);
  CHECK(defaults->top_p > 0 && defaults->top_p <= 1);
  for (const int32_t id : defaults->eos_token_ids) CHECK(id >= 0);
}

}  // namespace
}  // namespace phalanx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phalanx::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
