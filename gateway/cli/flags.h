#ifndef PHALANX_GATEWAY_CLI_FLAGS_H_
#define PHALANX_GATEWAY_CLI_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inference.pb.h"

namespace phalanx {

// A finite number in [low, high], or in (low, high] if `above_low`.
CLI::Validator NumberIn(double low, double high, bool above_low = false);

// The flags that the verbs which generate share. What is not given is left to
// the service, which knows the model's own defaults and limits.
struct SamplingFlags {
  std::string address;
  // How a token is drawn.
  std::optional<double> temperature;
  std::optional<int32_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<uint64_t> seed;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> repetition_penalty;
  std::optional<int32_t> repetition_window;
  std::vector<std::string> logit_bias;  // "ID:VALUE" each.
  std::vector<int32_t> allowed_ids;
  std::vector<int32_t> banned_ids;
  // How long it goes on.
  std::optional<int64_t> max_tokens;
  std::optional<int64_t> min_tokens;
  std::optional<double> max_time;  // Seconds.
  std::vector<std::string> stop;
  bool ignore_eos = false;
  // How the service treats it.
  std::optional<int32_t> choices;
  std::optional<std::string> priority;  // "lowest" to "highest".
  std::string salt;
  bool bypass_cache = false;
};

void AddSamplingFlags(CLI::App& verb, SamplingFlags& flags);

void FillSampling(const SamplingFlags& flags, v1::Sampling& sampling);
void FillStopping(const SamplingFlags& flags, v1::Stopping& stopping);
// Of "lowest" to "highest".
v1::Priority PriorityOf(const std::string& name);

// All of them, into a GenerateRequest or a ChatRequest.
template <typename Request>
void FillRequest(const SamplingFlags& flags, Request& request) {
  FillSampling(flags, *request.mutable_sampling());
  FillStopping(flags, *request.mutable_stopping());
  if (flags.choices) request.set_n(*flags.choices);
  if (flags.priority) request.set_priority(PriorityOf(*flags.priority));
  request.set_cache_salt(flags.salt);
  if (flags.bypass_cache) request.set_cache_bypass(true);
}

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_FLAGS_H_
