#ifndef PHALANX_GATEWAY_TOKENIZER_UTF8_H_
#define PHALANX_GATEWAY_TOKENIZER_UTF8_H_

// What the tokenizer must know of UTF-8: where text stops being valid, and how
// many bytes of a broken sequence one U+FFFD stands for. Pure functions, any
// thread.

#include <cstddef>

#include "absl/strings/string_view.h"

namespace phalanx {

// U+FFFD, what a hopeless sequence of bytes becomes.
inline constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// What the bytes at the front of a string are.
enum class Utf8Kind {
  kWhole,   // One code point.
  kBroken,  // The longest prefix of a code point that can never be completed.
  kCut,     // The string ends inside a code point that may still be completed.
};

struct Utf8Unit {
  Utf8Kind kind;
  size_t size;  // In bytes, at least 1.
};

// The first unit of `bytes`, which must not be empty. A broken unit is a
// "maximal subpart" of the Unicode standard, section 3.9: what decoders the
// world over replace by one U+FFFD.
Utf8Unit FirstUtf8Unit(absl::string_view bytes);

// The number of bytes before the first one that is not valid UTF-8;
// bytes.size() if all are.
size_t ValidUtf8Size(absl::string_view bytes);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_UTF8_H_
