// model.safetensors.index.json.

#include "absl/strings/match.h"
#include "common/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/weight_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = phalanx::ParseWeightIndex(text);
  if (!index.ok()) return 0;
  for (const auto& [tensor, file] : *index) {
    CHECK(tensor.size() <= phalanx::kMaxTensorNameBytes);
    // Never out of the model's folder.
    CHECK(!absl::StrContains(file, "/"));
    CHECK(!absl::StartsWith(file, "."));
    CHECK(absl::EndsWith(file, ".safetensors"));
  }
  return 0;
}
