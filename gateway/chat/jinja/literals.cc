#include "gateway/chat/jinja/literals.h"

#include <cctype>
#include <charconv>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status.h"
#include "gateway/chat/jinja/unicode.h"

namespace phalanx::jinja {
namespace {

int DigitValue(char c) {
  if (absl::ascii_isdigit(c)) return c - '0';
  if (absl::ascii_isalpha(c)) return absl::ascii_tolower(c) - 'a' + 10;
  return 99;
}

// Digits of `base` with single underscores between; their length.
size_t DigitsLength(absl::string_view text, int base) {
  size_t length = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (DigitValue(text[i]) < base) {
      length = i + 1;
    } else if (text[i] != '_' || length != i || i == 0) {
      break;
    }
  }
  return length;
}

int PrefixBase(absl::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (absl::ascii_tolower(text[1])) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

absl::Status NotANumber(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text.substr(0, 40), "' is no number"));
}

// Appends the code point of `digits` hexadecimal digits at text[at].
absl::Status AppendHex(absl::string_view text, size_t at, size_t digits,
                       CodePoint& c) {
  c = 0;
  if (at + digits > text.size()) {
    return absl::InvalidArgumentError("an escape in a string is cut short");
  }
  for (char digit : text.substr(at, digits)) {
    if (!absl::ascii_isxdigit(digit)) {
      return absl::InvalidArgumentError("an escape in a string is cut short");
    }
    c = c * 16 + DigitValue(digit);
  }
  if (c > 0x10ffff) {
    return absl::InvalidArgumentError("an escape in a string is no code point");
  }
  return absl::OkStatus();
}

// A \u escape at text[at] (behind the u); joins the two halves of a pair.
absl::Status AppendUnicodeEscape(absl::string_view text, size_t digits,
                                 size_t& at, std::string& out) {
  CodePoint c;
  RETURN_IF_ERROR(AppendHex(text, at, digits, c));
  at += digits;
  if (c >= 0xd800 && c < 0xdc00 && text.substr(at, 2) == "\\u") {
    CodePoint low;
    RETURN_IF_ERROR(AppendHex(text, at + 2, 4, low));
    if (low >= 0xdc00 && low <= 0xdfff) {
      at += 6;
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
  }
  if (c >= 0xd800 && c <= 0xdfff) {
    return absl::InvalidArgumentError(
        "an escape in a string is half of a surrogate pair");
  }
  AppendCodePoint(c, out);
  return absl::OkStatus();
}

void AppendOctal(absl::string_view text, size_t& at, std::string& out) {
  CodePoint c = 0;
  for (int i = 0;
       i < 3 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i) {
    c = c * 8 + (text[at++] - '0');
  }
  AppendCodePoint(c, out);
}

}  // namespace

size_t NumberLength(absl::string_view text) {
  if (text.empty() || !absl::ascii_isdigit(text[0])) return 0;
  if (const int base = PrefixBase(text); base != 0) {
    const size_t start = text.substr(2, 1) == "_" ? 3 : 2;
    const size_t length = DigitsLength(text.substr(start), base);
    return length > 0 ? start + length : 1;
  }
  size_t length = DigitsLength(text, 10);
  if (text.substr(length, 1) == ".") {
    const size_t fraction = DigitsLength(text.substr(length + 1), 10);
    if (fraction > 0) length += 1 + fraction;
  }
  absl::string_view rest = text.substr(length);
  if (!rest.empty() && (rest[0] == 'e' || rest[0] == 'E')) {
    const size_t sign = rest.size() > 1 && (rest[1] == '+' || rest[1] == '-');
    const size_t exponent = DigitsLength(rest.substr(1 + sign), 10);
    if (exponent > 0) length += 1 + sign + exponent;
  }
  return length;
}

absl::StatusOr<Value> ParseNumber(absl::string_view text) {
  if (PrefixBase(text) == 0 &&
      text.find_first_of(".eE") != absl::string_view::npos) {
    ASSIGN_OR_RETURN(const double value, ParseFloat(text));
    return Value::Float(value);
  }
  ASSIGN_OR_RETURN(const Integer value,
                   ParseInteger(text, PrefixBase(text) == 0 ? 10 : 0));
  return Value::Int(value);
}

absl::StatusOr<Integer> ParseInteger(absl::string_view text, int base) {
  absl::string_view digits = StripRight(StripLeft(text));
  const bool negative = absl::StartsWith(digits, "-");
  if (negative || absl::StartsWith(digits, "+")) digits.remove_prefix(1);
  const int prefix = PrefixBase(digits);
  if (prefix != 0 && (base == prefix || base == 0)) {
    digits.remove_prefix(2);
    if (absl::StartsWith(digits, "_")) digits.remove_prefix(1);
    base = prefix;
  }
  if (base == 0) base = 10;
  if (digits.empty() || DigitsLength(digits, base) != digits.size()) {
    return NotANumber(text);
  }
  Integer value = 0;
  for (char c : digits) {
    if (c == '_') continue;
    const int digit = negative ? -DigitValue(c) : DigitValue(c);
    if (__builtin_mul_overflow(value, Integer{base}, &value) ||
        __builtin_add_overflow(value, Integer{digit}, &value)) {
      return absl::InvalidArgumentError("an integer has more than 128 bits");
    }
  }
  return value;
}

absl::StatusOr<double> ParseFloat(absl::string_view text) {
  const absl::string_view trimmed = StripRight(StripLeft(text));
  std::string digits = absl::StrReplaceAll(trimmed, {{"_", ""}});
  if (absl::StartsWith(digits, "+") && !absl::StartsWith(digits, "+-")) {
    digits.erase(0, 1);
  }
  double value = 0;
  const std::from_chars_result end =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || end.ptr != digits.data() + digits.size()) {
    return NotANumber(text);
  }
  if (end.ec == std::errc::result_out_of_range) {
    // Too big is infinite, too small is zero, as in Python.
    return std::strtod(digits.c_str(), nullptr);
  }
  return value;
}

absl::StatusOr<std::string> Unescape(absl::string_view text) {
  static constexpr absl::string_view kLetters = "abfnrtv\\'\"";
  static constexpr absl::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i++]);
      continue;
    }
    const char letter = text[i + 1];
    const size_t known = kLetters.find(letter);
    i += 2;
    if (known != absl::string_view::npos) {
      out.push_back(kMeanings[known]);
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      RETURN_IF_ERROR(AppendUnicodeEscape(text, digits, i, out));
    } else if (letter >= '0' && letter <= '7') {
      --i;
      AppendOctal(text, i, out);
    } else if (letter == 'N') {
      return absl::InvalidArgumentError(
          "escapes by name (\\N{...}) are not supported");
    } else if (letter != '\n') {
      out.push_back('\\');
      out.push_back(letter);
    }
  }
  return out;
}

}  // namespace phalanx::jinja
