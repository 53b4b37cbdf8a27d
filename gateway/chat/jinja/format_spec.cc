#include "gateway/chat/jinja/format_spec.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "gateway/chat/jinja/unicode.h"
#include "gateway/chat/jinja/value_text.h"

namespace phalanx::jinja {
namespace {

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

// `body` with fill around it, `prefix` (the sign) before or inside of it.
std::string Pad(absl::string_view prefix, absl::string_view body, char align,
                const FormatSpec& spec) {
  const int64_t missing =
      spec.width - CountCodePoints(prefix) - CountCodePoints(body);
  std::string fill_left;
  std::string fill_right;
  for (int64_t i = 0; i < missing; ++i) {
    const bool left =
        align == '>' || align == '=' || (align == '^' && i < missing / 2);
    (left ? fill_left : fill_right) += spec.fill;
  }
  if (align == '=') return absl::StrCat(prefix, fill_left, body, fill_right);
  return absl::StrCat(fill_left, prefix, body, fill_right);
}

std::string DigitsOf(Integer value, int base) {
  std::string digits;
  do {
    digits.push_back("0123456789abcdef"[static_cast<int>(value % base)]);
    value /= base;
  } while (value > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

// A separator between every `size` digits of the leading digits of `text`.
std::string Group(const std::string& text, char separator, size_t size) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isalnum(text[digits])) ++digits;
  std::string grouped;
  for (size_t i = 0; i < digits; ++i) {
    if (i > 0 && (digits - i) % size == 0) grouped.push_back(separator);
    grouped.push_back(text[i]);
  }
  return grouped + text.substr(digits);
}

std::string FormatFloat(double size, const FormatSpec& spec) {
  const int precision =
      spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  switch (spec.type) {
    case 'f':
    case 'F':
      return absl::StrFormat("%.*f", precision, size);
    case '%':
      return absl::StrFormat("%.*f%%", precision, size * 100);
    case 'e':
      return absl::StrFormat("%.*e", precision, size);
    case 'E':
      return absl::StrFormat("%.*E", precision, size);
    case 'G':
      return absl::StrFormat("%.*G", precision, size);
    case 'g':
      return absl::StrFormat("%.*g", precision, size);
    default:
      return spec.precision < 0 ? FloatText(size)
                                : absl::StrFormat("%.*g", precision, size);
  }
}

absl::StatusOr<std::string> FormatInteger(Integer value,
                                          const FormatSpec& spec) {
  // The most negative integer has no counterpart.
  if (value < -(Integer{1} << 126)) {
    return absl::InvalidArgumentError("an integer is too small to format");
  }
  const Integer size = value < 0 ? -value : value;
  switch (spec.type) {
    case 'x':
      return absl::StrCat(spec.alternate ? "0x" : "", DigitsOf(size, 16));
    case 'X':
      return absl::StrCat(spec.alternate ? "0X" : "",
                          absl::AsciiStrToUpper(DigitsOf(size, 16)));
    case 'o':
      return absl::StrCat(spec.alternate ? "0o" : "", DigitsOf(size, 8));
    case 'b':
      return absl::StrCat(spec.alternate ? "0b" : "", DigitsOf(size, 2));
    default:
      return DigitsOf(size, 10);
  }
}

}  // namespace

absl::StatusOr<int64_t> ParseFormatNumber(absl::string_view text,
                                          size_t& position, int64_t most) {
  int64_t number = -1;
  while (position < text.size() && absl::ascii_isdigit(text[position])) {
    number = std::max<int64_t>(number, 0) * 10 + (text[position++] - '0');
    if (number > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("a number in a format is above ", most));
    }
  }
  return number;
}

absl::StatusOr<FormatSpec> ParseFormatSpec(absl::string_view text) {
  FormatSpec spec;
  size_t position = 0;
  size_t after_fill = 0;
  if (!text.empty()) NextCodePoint(text, after_fill);
  if (after_fill > 0 && after_fill < text.size() && IsAlign(text[after_fill])) {
    spec.fill = std::string(text.substr(0, after_fill));
    spec.align = text[after_fill];
    position = after_fill + 1;
  } else if (!text.empty() && IsAlign(text[0])) {
    spec.align = text[position++];
  }
  const auto at = [&](char c) {
    return position < text.size() && text[position] == c;
  };
  if (at('+') || at('-') || at(' ')) spec.sign = text[position++];
  if (at('#')) {
    spec.alternate = true;
    ++position;
  }
  if (at('0')) {
    ++position;
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  ASSIGN_OR_RETURN(spec.width,
                   ParseFormatNumber(text, position, kMaxFormatWidth));
  spec.width = std::max<int64_t>(spec.width, 0);
  if (at(',') || at('_')) spec.grouping = text[position++];
  if (at('.')) {
    ++position;
    ASSIGN_OR_RETURN(spec.precision,
                     ParseFormatNumber(text, position, kMaxFormatPrecision));
    if (spec.precision < 0) {
      return absl::InvalidArgumentError("format specifier missing precision");
    }
  }
  if (position < text.size()) spec.type = text[position++];
  if (position != text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid format specifier '", text, "'"));
  }
  return spec;
}

absl::StatusOr<std::string> FormatNumber(const Value& value,
                                         const FormatSpec& spec) {
  static constexpr absl::string_view kFloatTypes = "eEfFgG%";
  static constexpr absl::string_view kIntegerTypes = "diuxXobn";
  const bool as_float =
      spec.type == 0 ? value.kind() == Value::Kind::kFloat
                     : kFloatTypes.find(spec.type) != absl::string_view::npos;
  if (!value.is_number() ||
      (!as_float && spec.type != 0 &&
       (kIntegerTypes.find(spec.type) == absl::string_view::npos ||
        !value.is_integer()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("format code '", absl::string_view(&spec.type, 1),
                     "' does not suit ", value.type_name()));
  }
  std::string body;
  bool negative;
  if (as_float) {
    const double number = value.as_double();
    negative = std::signbit(number);
    body = FormatFloat(std::abs(number), spec);
  } else {
    negative = value.integer() < 0;
    ASSIGN_OR_RETURN(body, FormatInteger(value.integer(), spec));
  }
  if (spec.grouping != 0) {
    const bool binary = spec.type == 'x' || spec.type == 'X' ||
                        spec.type == 'o' || spec.type == 'b';
    body = Group(body, spec.grouping, binary ? 4 : 3);
  }
  const std::string sign = negative           ? "-"
                           : spec.sign == '-' ? ""
                                              : std::string(1, spec.sign);
  return Pad(sign, body, spec.align == 0 ? '>' : spec.align, spec);
}

std::string FormatText(absl::string_view text, const FormatSpec& spec) {
  std::string cut;
  if (spec.precision >= 0) {
    size_t end = 0;
    for (int64_t i = 0; i < spec.precision && end < text.size(); ++i) {
      NextCodePoint(text, end);
    }
    text = text.substr(0, end);
  }
  return Pad("", text, spec.align == 0 || spec.align == '=' ? '<' : spec.align,
             spec);
}

}  // namespace phalanx::jinja
