#ifndef PHALANX_TESTS_WORKER_CHECKPOINT_SYNTHETIC_CHECKPOINT_H_
#define PHALANX_TESTS_WORKER_CHECKPOINT_SYNTHETIC_CHECKPOINT_H_

#include <cstdint>
#include <string>

namespace phalanx {

// A qwen3_5_moe of the widths of Qwen3.5-35B-A3B, fewer of everything else. An
// expert has 6 MiB in bf16.
struct SyntheticModel {
  int layers = 4;  // Every fourth is attention.
  int experts = 48;
  int64_t vocab_size = 32768;
  bool fp8 = false;  // Block-FP8, one tensor an expert; else bf16 and fused.
};

// Writes config.json and model.safetensors: small finite numbers that mean
// nothing, the same on every call. The file is streamed, never held.
void WriteSyntheticCheckpoint(const std::string& folder,
                              const SyntheticModel& model);

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_CHECKPOINT_SYNTHETIC_CHECKPOINT_H_
