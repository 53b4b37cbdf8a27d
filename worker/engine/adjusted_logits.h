#ifndef PHALANX_WORKER_ENGINE_ADJUSTED_LOGITS_H_
#define PHALANX_WORKER_ENGINE_ADJUSTED_LOGITS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/scheduler/request.h"

namespace phalanx {

// Logits as a draw sees them: operations 2 to 5 of request.h's Sampling, each
// of them one or two f32 operations on the logit of an id, in that order:
//
//   repetition      l > 0 ? l / repetition : l * repetition
//   frequency,      (l - c * frequency) - presence, c as an f32
//   presence
//   logit_bias      l + bias
//   masks           minus infinity
//
// What would leave the finite range stays at its end; minus infinity stays what
// it is. A pure function of logits and spec; the memory it works in is taken
// once. Cost: a copy of the logits, and two looks at each token of the context
// that a penalty is about; nothing where the spec changes nothing.
//
// Life: one per sampler, used by one thread.
class AdjustedLogits {
 public:
  // vocab_size >= 1.
  explicit AdjustedLogits(int64_t vocab_size);

  // What one takes, in bytes.
  static int64_t Bytes(int64_t vocab_size);

  // logits: [vocab_size], each finite or minus infinity. spec: as
  // ValidateRequest allows, every id below vocab_size. The logits themselves if
  // nothing changes, else a changed copy; valid until the next call.
  std::span<const float> Of(std::span<const float> logits,
                            const SampleSpec& spec);

 private:
  void Repeat(std::span<const int32_t> window, float repetition);
  void Count(std::span<const int32_t> output, float frequency, float presence);
  void Mask(const Sampling& sampling, std::span<const int32_t> held_back);

  std::vector<float> values_;
  // How often each id occurred; all 0 between calls.
  std::vector<int32_t> counts_;
  std::vector<float> allowed_;  // Values of allowed_ids while all are masked.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_ADJUSTED_LOGITS_H_
