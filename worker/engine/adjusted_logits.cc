#include "worker/engine/adjusted_logits.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/check.h"

namespace phalanx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

float Saturated(float value) { return std::clamp(value, -kLargest, kLargest); }

}  // namespace

AdjustedLogits::AdjustedLogits(int64_t vocab_size)
    : values_(vocab_size), counts_(vocab_size, 0) {
  CHECK(vocab_size >= 1);
  allowed_.reserve(std::min(vocab_size, kMaxMaskedIds));
}

int64_t AdjustedLogits::Bytes(int64_t vocab_size) {
  return vocab_size * int64_t{sizeof(float) + sizeof(int32_t)} +
         std::min(vocab_size, kMaxMaskedIds) * int64_t{sizeof(float)};
}

std::span<const float> AdjustedLogits::Of(std::span<const float> logits,
                                          const SampleSpec& spec) {
  const Sampling& sampling = *spec.sampling;
  if (!sampling.adjusts() && spec.held_back.empty()) return logits;
  CHECK(logits.size() == values_.size());
  std::copy(logits.begin(), logits.end(), values_.begin());
  if (sampling.repetition != 1) {
    const auto most = static_cast<size_t>(sampling.repetition_window);
    Repeat(most > 0 && most < spec.context.size() ? spec.context.last(most)
                                                  : spec.context,
           sampling.repetition);
  }
  if (sampling.frequency != 0 || sampling.presence != 0)
    Count(spec.context.subspan(spec.prompt_tokens), sampling.frequency,
          sampling.presence);
  for (const auto& [id, bias] : sampling.logit_bias)
    if (values_[id] > -kInfinity) values_[id] = Saturated(values_[id] + bias);
  Mask(sampling, spec.held_back);
  return values_;
}

void AdjustedLogits::Repeat(std::span<const int32_t> window, float repetition) {
  for (const int32_t id : window) {
    float& value = values_[id];
    if (counts_[id]++ > 0 || value == -kInfinity) continue;
    value = Saturated(value > 0 ? value / repetition : value * repetition);
  }
  for (const int32_t id : window) counts_[id] = 0;
}

void AdjustedLogits::Count(std::span<const int32_t> output, float frequency,
                           float presence) {
  for (const int32_t id : output) ++counts_[id];
  for (const int32_t id : output) {
    const int32_t count = std::exchange(counts_[id], 0);
    float& value = values_[id];
    if (count == 0 || value == -kInfinity) continue;
    value =
        Saturated((value - static_cast<float>(count) * frequency) - presence);
  }
}

void AdjustedLogits::Mask(const Sampling& sampling,
                          std::span<const int32_t> held_back) {
  if (!sampling.allowed_ids.empty()) {
    allowed_.clear();
    for (const int32_t id : sampling.allowed_ids)
      allowed_.push_back(values_[id]);
    std::fill(values_.begin(), values_.end(), -kInfinity);
    for (size_t i = 0; i < allowed_.size(); ++i)
      values_[sampling.allowed_ids[i]] = allowed_[i];
  }
  for (const int32_t id : sampling.banned_ids) values_[id] = -kInfinity;
  for (const int32_t id : held_back) values_[id] = -kInfinity;
}

}  // namespace phalanx
