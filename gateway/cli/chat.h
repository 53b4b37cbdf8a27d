#ifndef PHALANX_GATEWAY_CLI_CHAT_H_
#define PHALANX_GATEWAY_CLI_CHAT_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "gateway/cli/flags.h"

namespace phalanx {

// The flags of `phalanx chat`.
struct ChatOptions {
  SamplingFlags common;
  std::string system;
  bool no_thinking = false;
  bool timings = false;  // Always; else on a terminal only.
  std::optional<std::string> message;
};

void AddChatFlags(CLI::App& verb, ChatOptions& options);

// With a message one answer; else a conversation: with line editing on a
// terminal, or one message per line of standard input. The exit code: 0; 1
// after a failure, told on stderr (on a terminal the conversation goes on);
// 130 after Ctrl-C, but on a terminal it ends only the answer. Main thread,
// before any other.
int RunChat(const ChatOptions& options);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_CHAT_H_
