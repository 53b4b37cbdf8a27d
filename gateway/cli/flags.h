#ifndef PHALANX_GATEWAY_CLI_FLAGS_H_
#define PHALANX_GATEWAY_CLI_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "inference.pb.h"

namespace phalanx {

// A finite number in [low, high], or in (low, high] if `above_low`.
CLI::Validator NumberIn(double low, double high, bool above_low = false);

// The flags that the verbs which generate share. What is not given is left to
// the service, which knows the model's own defaults and limits.
struct SamplingFlags {
  std::string address;
  std::optional<int64_t> max_tokens;
  std::optional<double> temperature;
  std::optional<uint64_t> seed;
};

void AddSamplingFlags(CLI::App& verb, SamplingFlags& flags);
void FillSampling(const SamplingFlags& flags, v1::Sampling& sampling,
                  v1::Stopping& stopping);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_FLAGS_H_
