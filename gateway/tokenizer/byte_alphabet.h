#ifndef PHALANX_GATEWAY_TOKENIZER_BYTE_ALPHABET_H_
#define PHALANX_GATEWAY_TOKENIZER_BYTE_ALPHABET_H_

// The alphabet in which tokenizer.json spells tokens: one printable character
// for each of the 256 bytes. Bytes that print in Latin-1 stand for themselves;
// the 68 others take U+0100, U+0101, ... in ascending order (so a space is
// spelled U+0120).

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace phalanx {

// The bytes that `spelling` (valid UTF-8) stands for; nothing if a character is
// outside the alphabet. Any thread.
std::optional<std::string> BytesOfSpelling(absl::string_view spelling);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_BYTE_ALPHABET_H_
