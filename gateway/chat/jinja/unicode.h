#ifndef PHALANX_GATEWAY_CHAT_JINJA_UNICODE_H_
#define PHALANX_GATEWAY_CHAT_JINJA_UNICODE_H_

// What a template can ask of text, by code point: Python counts, cuts, strips
// and changes case by code point, so a template does too. Tables are those of
// Unicode 14 (Python 3.11). All functions are pure and callable from any
// thread; bytes that are no UTF-8 count as one code point each, kInvalid + byte
// (so that decoding and encoding give the bytes back).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace phalanx::jinja {

using CodePoint = uint32_t;

// Above every real code point; the low byte is the undecodable byte.
inline constexpr CodePoint kInvalid = 0x40000000;

// The code point that starts at `position`, and moves `position` behind it.
// Requires position < text.size().
CodePoint NextCodePoint(absl::string_view text, size_t& position);

// Appends one code point as UTF-8 (or the byte it stands for).
void AppendCodePoint(CodePoint c, std::string& out);

std::vector<CodePoint> Decode(absl::string_view text);
std::string Encode(const std::vector<CodePoint>& points);
int64_t CountCodePoints(absl::string_view text);

// Python's str.isspace and kin for one code point.
bool IsSpace(CodePoint c);
bool IsAlphabetic(CodePoint c);
bool IsDigit(CodePoint c);
bool IsPrintable(CodePoint c);
bool IsUpper(CodePoint c);
bool IsLower(CodePoint c);
// A line end in the sense of str.splitlines ("\r\n" is two of them here).
bool IsLineEnd(CodePoint c);
// May a name hold it (\w)?
bool IsWord(CodePoint c);

// Python's str.upper, lower, capitalize and title. The result may be longer
// than the text, at most three times.
std::string ToUpper(absl::string_view text);
std::string ToLower(absl::string_view text);
std::string Capitalize(absl::string_view text);
std::string ToTitle(absl::string_view text);
std::string SwapCase(absl::string_view text);

// Whitespace (in Python's sense) taken off.
absl::string_view StripLeft(absl::string_view text);
absl::string_view StripRight(absl::string_view text);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_UNICODE_H_
