#ifndef PHALANX_GATEWAY_CHAT_JINJA_LEXER_H_
#define PHALANX_GATEWAY_CHAT_JINJA_LEXER_H_

// Template text to tokens, with trim_blocks and lstrip_blocks on: the newline
// after a block's end and the blanks before a block that starts a line go.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

struct Token {
  enum class Kind {
    kText,        // Text between tags.
    kPrintBegin,  // {{
    kPrintEnd,    // }}
    kBlockBegin,  // {%
    kBlockEnd,    // %}
    kName,
    kString,
    kNumber,
    kOperator,  // In `text`.
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;  // Text, name, operator; a string's text, unescaped.
  Value number;
  int line = 1;
};

// All tokens of a template; the last is kEnd. Pure; any thread.
// Errors: INVALID_ARGUMENT with the line, for an unclosed tag, comment or
// string, unbalanced brackets and characters that mean nothing.
absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view source);

// INVALID_ARGUMENT "template line 3: message".
absl::Status ErrorAtLine(int line, absl::string_view message);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_LEXER_H_
