#ifndef PHALANX_GATEWAY_CHAT_JINJA_VALUE_TEXT_H_
#define PHALANX_GATEWAY_CHAT_JINJA_VALUE_TEXT_H_

// Values as text, the way Python prints them. Pure; any thread.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// Appends str(value): a string as it is, all else as AppendRepr. Shared parts
// make a small value a long text, so both stop with INVALID_ARGUMENT once `out`
// holds more than `max_bytes`, or when namespaces hold each other too deeply.
absl::Status AppendText(const Value& value, size_t max_bytes, std::string& out);

// Appends repr(value).
absl::Status AppendRepr(const Value& value, size_t max_bytes, std::string& out);

// A string in quotes, escaped as Python's repr does.
std::string QuotedText(absl::string_view text);

// The shortest text that reads back as the same number: 1.0, 1e-05, inf.
std::string FloatText(double value);

std::string IntegerText(Integer value);

// & < > " ' as HTML entities.
std::string EscapeHtml(absl::string_view text);

// What `out` is told when a text would pass its limit.
absl::Status TooLong(size_t max_bytes);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_VALUE_TEXT_H_
