#ifndef PHALANX_GATEWAY_CLI_TOKENIZE_H_
#define PHALANX_GATEWAY_CLI_TOKENIZE_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace phalanx {

// The flags of `phalanx tokenize`.
struct TokenizeOptions {
  std::optional<std::string> text;  // Or ids; standard input if neither.
  std::optional<std::string> file;
  std::string model_dir;
  bool decode = false;
  bool no_special = false;
  bool ids = false;
  bool json = false;
};

void AddTokenizeFlags(CLI::App& verb, TokenizeOptions& options);

// The bytes of a token between quotes, on one line: control characters, quotes
// and backslashes escaped, and bytes that are no whole code points as \xE2.
std::string QuotedPiece(absl::string_view bytes);

// Text to ids or back, by the tokenizer that the gateway uses; no service takes
// part. Returns the exit code.
int RunTokenize(const TokenizeOptions& options);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_TOKENIZE_H_
