#include "gateway/cli/completion.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "gateway/cli/client.h"
#include "gateway/cli/standard_output.h"
#include "gateway/cli/worker_verb.h"

namespace phalanx {

CommandLine DescribeCommandLine(const CLI::App& app) {
  CommandLine command{.program = DescribeVerb(app), .verbs = {}};
  for (const CLI::App* verb : app.get_subcommands({}))
    if (!verb->get_name().empty()) command.verbs.push_back(DescribeVerb(*verb));
  return command;
}

void AddCompletionFlags(CLI::App& verb, CompletionOptions& o) {
  verb.add_option("shell", o.shell, "The shell")
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->required();
  verb.footer(
      "Completes verbs, flags, their values, and paths.\n"
      "In this shell:     source <(phalanx completion bash)\n"
      "In all to come:    the same line in ~/.bashrc; for zsh, with zsh in it, "
      "in\n"
      "                   ~/.zshrc after compinit");
}

int RunCompletion(const CompletionOptions& options, const CLI::App& app) {
  CommandLine command = DescribeCommandLine(app);
  for (VerbEntry& verb : command.verbs) {
    if (!IsWorkerVerb(verb.name)) continue;
    // Where the worker is not installed there is nothing to complete.
    if (auto flags = ListWorkerFlags(verb.name); flags.ok())
      verb.flags = std::move(flags->flags);
  }
  const absl::Status status =
      WriteOut(options.shell == "zsh" ? ZshCompletion(command)
                                      : BashCompletion(command));
  return status.ok() ? 0 : Fail("completion", status);
}

}  // namespace phalanx
