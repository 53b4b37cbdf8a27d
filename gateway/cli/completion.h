#ifndef PHALANX_GATEWAY_CLI_COMPLETION_H_
#define PHALANX_GATEWAY_CLI_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/flag_list.h"

namespace phalanx {

// What a shell may complete: a program, its own flags, its verbs.
struct CommandLine {
  VerbEntry program;
  std::vector<VerbEntry> verbs;
};

CommandLine DescribeCommandLine(const CLI::App& app);

// Scripts that define the completion of `command`: verbs, flags, the values of
// flags that have few, folders and files. To be sourced, or, for zsh, put in
// $fpath as a file named after the program with _ before it.
std::string BashCompletion(const CommandLine& command);
std::string ZshCompletion(const CommandLine& command);

// The flags of `phalanx completion`.
struct CompletionOptions {
  std::string shell;
};

void AddCompletionFlags(CLI::App& verb, CompletionOptions& options);

// Prints the script for all verbs of `app`; flags of verbs that are the
// worker's are asked of it. Returns the exit code.
int RunCompletion(const CompletionOptions& options, const CLI::App& app);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_COMPLETION_H_
