#ifndef PHALANX_GATEWAY_CHAT_JINJA_FORMAT_SPEC_H_
#define PHALANX_GATEWAY_CHAT_JINJA_FORMAT_SPEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// Widest field and most digits behind the point that a format may ask for.
inline constexpr int64_t kMaxFormatWidth = 10'000;
inline constexpr int64_t kMaxFormatPrecision = 1'000;

// How one field is to look.
struct FormatSpec {
  std::string fill = " ";  // One code point.
  char align = 0;          // < > ^ =, or 0: by type
  char sign = '-';         // + or blank: show it
  bool alternate = false;  // #
  char grouping = 0;       // , or _
  int64_t width = 0;       // In code points.
  int64_t precision = -1;  // -1: not given
  char type = 0;
};

// The mini-language behind the colon of a {} field.
// Errors: INVALID_ARGUMENT.
absl::StatusOr<FormatSpec> ParseFormatSpec(absl::string_view text);

// A decimal number at text[position], moved past; -1 if there is none.
// Errors: INVALID_ARGUMENT above `most`.
absl::StatusOr<int64_t> ParseFormatNumber(absl::string_view text,
                                          size_t& position, int64_t most);

// A number (any type but s) as the spec says. Errors: INVALID_ARGUMENT.
absl::StatusOr<std::string> FormatNumber(const Value& value,
                                         const FormatSpec& spec);

// A text cut to the precision and filled up to the width.
std::string FormatText(absl::string_view text, const FormatSpec& spec);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_FORMAT_SPEC_H_
