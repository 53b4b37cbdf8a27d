#ifndef PHALANX_GATEWAY_CHAT_JINJA_JSON_H_
#define PHALANX_GATEWAY_CHAT_JINJA_JSON_H_

// JSON text to values and back. Pure; any thread.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// Deepest JSON that is read; below kMaxValueDepth, so that templates can wrap
// it.
inline constexpr int kMaxJsonDepth = 100;

// Reads one JSON document; keys keep their order, 1 and 1.0 stay different.
// Errors: INVALID_ARGUMENT with the position, for what is no JSON, no UTF-8,
// nested deeper than kMaxJsonDepth, or an integer beyond 128 bits.
absl::StatusOr<Value> ParseJson(absl::string_view text);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // Text of one level; absent: one line.
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// json.dumps. Errors: INVALID_ARGUMENT for what JSON cannot say (an undefined
// value, a function) and for a text longer than `max_bytes`.
absl::StatusOr<std::string> DumpJson(const Value& value, const JsonStyle& style,
                                     size_t max_bytes);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_JSON_H_
