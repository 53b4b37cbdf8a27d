#include "gateway/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

namespace phalanx {
namespace {

constexpr int kBytes = 256;
constexpr int kLargestCharacter = 0x143;  // U+0100 plus 68, less one.

constexpr bool PrintsInLatin1(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

// Character -> byte, -1 where no byte is spelled so.
constexpr std::array<int16_t, kLargestCharacter + 1> ByteByCharacter() {
  std::array<int16_t, kLargestCharacter + 1> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  int next = 0x100;
  for (int byte = 0; byte < kBytes; ++byte) {
    bytes[PrintsInLatin1(byte) ? byte : next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr auto kByteByCharacter = ByteByCharacter();

}  // namespace

std::optional<std::string> BytesOfSpelling(absl::string_view spelling) {
  std::string bytes;
  for (size_t i = 0; i < spelling.size(); ++i) {
    int character = static_cast<uint8_t>(spelling[i]);
    if (character >= 0x80) {
      // The whole alphabet is below U+0800: one or two bytes.
      if (character >= 0xE0 || i + 1 == spelling.size()) return std::nullopt;
      character = (character & 0x1F) << 6 |
                  (static_cast<uint8_t>(spelling[++i]) & 0x3F);
    }
    if (character > kLargestCharacter || kByteByCharacter[character] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kByteByCharacter[character]));
  }
  return bytes;
}

}  // namespace phalanx
