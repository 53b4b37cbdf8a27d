// phalanx: what a person types. One verb each; the verbs share no state.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "common/flag_list.h"
#include "common/help_format.h"
#include "common/version.h"
#include "gateway/cli/bench_serve.h"
#include "gateway/cli/chat.h"
#include "gateway/cli/check.h"
#include "gateway/cli/completion.h"
#include "gateway/cli/generate.h"
#include "gateway/cli/serve.h"
#include "gateway/cli/status.h"
#include "gateway/cli/tokenize.h"
#include "gateway/cli/worker_verb.h"

namespace phalanx {
namespace {

// The flags of every verb.
struct Options {
  ServeOptions serve;
  ChatOptions chat;
  GenerateOptions generate;
  StatusOptions status;
  TokenizeOptions tokenize;
  CheckOptions check;
  BenchOptions bench;
  CompletionOptions completion;
};

// What the value of a flag is called, in whatever verb it stands: --help shows
// it, and the completion of a shell offers folders and files accordingly.
void NameValues(CLI::App& verb) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"--address", "ADDRESS"},       {"--admin-address", "ADDRESS"},
      {"--model", kFolderValue},      {"--prompt-file", kFileValue},
      {"--file", kFileValue},         {"--manifest", kFileValue},
      {"--pack-cache", kFolderValue}, {"--memory-budget", "BYTES"},
      {"--timeout", "SECONDS"},       {"--duration", "SECONDS"}};
  for (const auto& [flag, name] : kNames)
    if (CLI::Option* option = verb.get_option_no_throw(flag))
      option->type_name(name);
  for (CLI::App* group : verb.get_subcommands({})) NameValues(*group);
}

void AddVerbs(CLI::App& app, Options& options) {
  const auto add = [&](const char* name, const char* what) -> CLI::App& {
    return *app.add_subcommand(name, what)->group("Verbs");
  };
  AddServeFlags(add("serve", "Serve a model on this machine"), options.serve);
  AddChatFlags(add("chat", "Ask, or have a conversation"), options.chat);
  AddGenerateFlags(add("generate", "Continue a raw prompt"), options.generate);
  AddStatusFlags(add("status", "Show the service's state"), options.status);
  AddCheckFlags(
      add("check",
          "Look whether a service works, or a model's files are right"),
      options.check);
  AddBenchFlags(
      add("bench", "Measure a service under load, kernels, or a model"),
      options.bench);
  AddTokenizeFlags(add("tokenize",
                       "Show the tokens of a text, without a "
                       "service"),
                   options.tokenize);
  add("plan", "Show what each card of a group would hold");
  add("quantize", "Make a model's folder in int8 or int4");
  AddCompletionFlags(add("completion",
                         "Print a script that completes all this "
                         "in bash or zsh"),
                     options.completion);
  NameValues(app);
}

int Run(const CLI::App& app, const Options& options) {
  if (app.got_subcommand("serve")) return RunServe(options.serve);
  if (app.got_subcommand("chat")) return RunChat(options.chat);
  if (app.got_subcommand("generate")) return RunGenerate(options.generate);
  if (app.got_subcommand("check")) return RunCheck(options.check);
  if (app.got_subcommand("bench")) return RunBench(options.bench);
  if (app.got_subcommand("tokenize")) return RunTokenize(options.tokenize);
  if (app.got_subcommand("completion"))
    return RunCompletion(options.completion, app);
  return RunStatus(options.status);
}

// Tells of a word that is no verb; CLI11 would say that one is missing.
bool RefuseVerb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({}))
    names.push_back(verb->get_name());
  if (std::find(names.begin(), names.end(), word) != names.end()) return false;
  const std::string last = names.back();
  names.pop_back();
  std::fprintf(stderr, "phalanx: the verb is %s; must be %s or %s\n",
               word.c_str(), absl::StrJoin(names, ", ").c_str(), last.c_str());
  return true;
}

int Main(int argc, char** argv) {
  // Its flags are those of another program.
  if (const WorkerVerb* verb = FindWorkerVerb(argc, argv))
    return RunWorkerVerb(*verb, argc, argv);
  // Debian's Abseil aborts on a lock inversion seen once, gRPC's own included.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("phalanx: serve a model on this machine, and talk to it.",
               "phalanx");
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("--help,-h", "Show this, and end");
  app.set_version_flag("--version", std::string("phalanx ") + kVersion,
                       "Show the version, and end");
  app.footer(
      "Examples:\n"
      "  phalanx serve --tp-size 2       start, until Ctrl-C\n"
      "  phalanx chat 'What is 2 + 3?'   in a second terminal\n"
      "  phalanx chat                    a conversation\n"
      "  phalanx status                  how the ranks are\n"
      "  phalanx check                   whether all of it works\n"
      "  phalanx bench serve             how fast it is under load\n"
      "  phalanx bench model --help      how fast a model is, without gateway\n"
      "  phalanx plan --help             what a card would hold\n"
      "  phalanx quantize --help         a model in int8 or int4\n"
      "  phalanx completion --help       all this on Tab\n"
      "`phalanx VERB --help` has the flags of a verb.\n"
      "Exit codes: 0 done, 1 refused or failed, 130 Ctrl-C, above 100 a wrong "
      "flag.");
  app.require_subcommand(1);
  Options options;
  AddVerbs(app, options);
  if (argc > 1 && argv[1][0] != '-' && RefuseVerb(app, argv[1]))
    return static_cast<int>(CLI::ExitCodes::ExtrasError);
  CLI11_PARSE(app, argc, argv);
  return Run(app, options);
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
