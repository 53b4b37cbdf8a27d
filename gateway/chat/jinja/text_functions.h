#ifndef PHALANX_GATEWAY_CHAT_JINJA_TEXT_FUNCTIONS_H_
#define PHALANX_GATEWAY_CHAT_JINJA_TEXT_FUNCTIONS_H_

// What string methods and text filters share. Errors are INVALID_ARGUMENT.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// Code points found in `set` taken off the chosen ends.
absl::string_view StripSet(absl::string_view text, absl::string_view set,
                           bool left, bool right);

// `from` replaced by `to`, at most `count` times (-1: all). An empty `from`
// stands between all code points.
absl::StatusOr<std::string> Replace(Interpreter& interpreter,
                                    absl::string_view text,
                                    absl::string_view from,
                                    absl::string_view to, int64_t count);

// The parts as text, `separator` between them.
absl::StatusOr<std::string> Join(Interpreter& interpreter,
                                 absl::string_view separator,
                                 const std::vector<Value>& parts,
                                 bool strings_only);

// Lines without their ends, as str.splitlines has them.
std::vector<absl::string_view> SplitLines(absl::string_view text,
                                          bool keep_ends);

// `width` blanks (or other fill) around the text. Align: '<', '>' or '^'.
absl::StatusOr<std::string> Fill(Interpreter& interpreter,
                                 absl::string_view text, int64_t width,
                                 absl::string_view fill, char align);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_TEXT_FUNCTIONS_H_
