#ifndef PHALANX_WORKER_PLAN_PRESETS_H_
#define PHALANX_WORKER_PLAN_PRESETS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {

// The names of PresetConfig.
inline constexpr absl::string_view kPresetNames[] = {
    "qwen3.6-35b-a3b", "qwen3.5-122b-a10b", "qwen3.5-397b-a17b"};

// What config.json of a public release says (model_spec.md 1.2), so that memory
// can be planned without its files. NOT_FOUND, with the names there are.
absl::StatusOr<ModelConfig> PresetConfig(absl::string_view name);

}  // namespace phalanx

#endif  // PHALANX_WORKER_PLAN_PRESETS_H_
