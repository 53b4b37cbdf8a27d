#ifndef PHALANX_GATEWAY_CLI_GENERATE_H_
#define PHALANX_GATEWAY_CLI_GENERATE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gateway/cli/flags.h"

namespace phalanx {

// The flags of `phalanx generate`. Of the three prompts one is set.
struct GenerateOptions {
  SamplingFlags common;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;  // "-": standard input.
  std::vector<int32_t> token_ids;
  std::optional<int32_t> logprobs;
  bool prompt_logprobs = false;
  bool echo = false;
  bool json = false;
};

void AddGenerateFlags(CLI::App& verb, GenerateOptions& options);

// Continues one prompt and prints it as it comes, choice by choice; what the
// service has to say meanwhile goes to stderr. The exit code: 0; 1 after a
// refusal or a failure, told on stderr; 130 after Ctrl-C. Main thread, before
// any other.
int RunGenerate(const GenerateOptions& options);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_GENERATE_H_
