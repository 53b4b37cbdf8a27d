// Step plans: what decodes is the one encoding of what it decodes to.

#include "common/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/scheduler/step_plan.h"

namespace phalanx {
namespace {

// Small, so that their edges are met.
constexpr StepPlanLimits kLimits = {.max_sequences = 5,
                                    .max_tokens = 40,
                                    .max_logit_rows = 5,
                                    .max_model_len = 200,
                                    .vocab_size = 300,
                                    .state_slots = 6,
                                    .kv_blocks = 9};

void Read(absl::string_view bytes) {
  const auto plan = Decode(bytes, kLimits);
  if (!plan.ok()) return;
  CHECK(static_cast<int64_t>(bytes.size()) <= MaxEncodedBytes(kLimits));
  CHECK(plan->token_count() <= kLimits.max_tokens);
  CHECK(plan->logits_count() <= kLimits.max_logit_rows);
  const std::string again = Encode(*plan);
  CHECK(absl::string_view(again) == bytes);
  const auto twice = Decode(again, kLimits);
  CHECK(twice.ok() && *twice == *plan);
}

}  // namespace
}  // namespace phalanx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phalanx::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
