#ifndef PHALANX_GATEWAY_CHAT_JINJA_LITERALS_H_
#define PHALANX_GATEWAY_CHAT_JINJA_LITERALS_H_

// Numbers and strings as a template writes them. Pure; any thread.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// The length of the number that `text` starts with (1, 1_000, 0x1f, 1.5e3);
// 0 if it starts with none.
size_t NumberLength(absl::string_view text);

// What such a number is worth. Errors: INVALID_ARGUMENT beyond 128 bits.
absl::StatusOr<Value> ParseNumber(absl::string_view text);

// Python's int(text, base) for base 2..36, or 0 for "by the prefix"; blanks
// around and _ inside allowed. Errors: INVALID_ARGUMENT.
absl::StatusOr<Integer> ParseInteger(absl::string_view text, int base);

// Python's float(text). Errors: INVALID_ARGUMENT.
absl::StatusOr<double> ParseFloat(absl::string_view text);

// The inside of a string literal with its escapes done.
// Errors: INVALID_ARGUMENT for an escape that is cut short or no code point.
absl::StatusOr<std::string> Unescape(absl::string_view text);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_LITERALS_H_
