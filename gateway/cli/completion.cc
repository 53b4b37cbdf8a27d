#include "gateway/cli/completion.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "gateway/cli/client.h"
#include "gateway/cli/standard_output.h"
#include "gateway/cli/worker_verb.h"

namespace phalanx {
namespace {

// Where the worker is not installed there are none to complete. A verb that is
// its own in part offers the flags of all its parts.
void AddWorkerFlags(const WorkerVerb& theirs, VerbEntry& verb) {
  const absl::StatusOr<VerbEntry> flags = ListWorkerFlags(theirs);
  if (!flags.ok()) return;
  if (*theirs.what == '\0') verb.flags.clear();
  for (const FlagEntry& flag : flags->flags) {
    const bool known =
        std::any_of(verb.flags.begin(), verb.flags.end(),
                    [&](const FlagEntry& f) { return f.name == flag.name; });
    if (!known) verb.flags.push_back(flag);
  }
}

}  // namespace

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
  for (const WorkerVerb& theirs : WorkerVerbs())
    for (VerbEntry& verb : command.verbs)
      if (verb.name == theirs.verb) AddWorkerFlags(theirs, verb);
  const absl::Status status =
      WriteOut(options.shell == "zsh" ? ZshCompletion(command)
                                      : BashCompletion(command));
  return status.ok() ? 0 : Fail("completion", status);
}

}  // namespace phalanx
