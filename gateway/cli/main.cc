// phalanx: what a person types. One verb each; the verbs share no state.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/synchronization/mutex.h"
#include "common/version.h"
#include "gateway/cli/chat.h"
#include "gateway/cli/generate.h"
#include "gateway/cli/plan.h"
#include "gateway/cli/serve.h"
#include "gateway/cli/status.h"

namespace phalanx {
namespace {

int Main(int argc, char** argv) {
  // Its flags are those of another program.
  if (argc > 1 && std::string(argv[1]) == "plan")
    return RunPlan(argc - 1, argv + 1);
  // Debian's Abseil aborts on a lock inversion seen once, gRPC's own included.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("phalanx: serve a model on this machine, and talk to it.");
  app.set_version_flag("--version", std::string("phalanx ") + kVersion);
  app.footer(
      "Examples:\n"
      "  phalanx serve --tp-size 2       start, until Ctrl-C\n"
      "  phalanx chat 'What is 2 + 3?'   in a second terminal\n"
      "  phalanx chat                    a conversation\n"
      "  phalanx status                  how the ranks are\n"
      "  phalanx plan --help             what a card would hold\n"
      "`phalanx VERB --help` has the flags of a verb.\n"
      "Exit codes: 0 done, 1 refused or failed, 130 Ctrl-C, above 100 a wrong "
      "flag.");
  app.require_subcommand(1);

  ServeOptions serve;
  AddServeFlags(*app.add_subcommand("serve", "Serve a model on this machine"),
                serve);
  ChatOptions chat;
  AddChatFlags(*app.add_subcommand("chat", "Ask, or have a conversation"),
               chat);
  GenerateOptions generate;
  AddGenerateFlags(*app.add_subcommand("generate", "Continue a raw prompt"),
                   generate);
  StatusOptions status;
  AddStatusFlags(*app.add_subcommand("status", "Show the service's state"),
                 status);
  app.add_subcommand("plan", "Show what each card of a group would hold");
  const auto verbs = app.get_subcommands([](CLI::App*) { return true; });
  if (argc > 1 && argv[1][0] != '-' &&
      std::none_of(verbs.begin(), verbs.end(),
                   [&](CLI::App* verb) { return verb->check_name(argv[1]); })) {
    std::fprintf(stderr,
                 "phalanx: the verb is %s; must be serve, chat, generate, "
                 "status or plan\n",
                 argv[1]);
    return static_cast<int>(CLI::ExitCodes::ExtrasError);
  }
  CLI11_PARSE(app, argc, argv);

  if (app.got_subcommand("serve")) return RunServe(serve);
  if (app.got_subcommand("chat")) return RunChat(chat);
  if (app.got_subcommand("generate")) return RunGenerate(generate);
  return RunStatus(status);
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
