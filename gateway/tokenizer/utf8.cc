#include "gateway/tokenizer/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/check.h"

namespace phalanx {
namespace {

// Bytes in a code point that starts with `lead`; 0 if none starts so.
size_t SizeByLead(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

// Whether `second` may follow `lead`: this is where overlong forms, surrogates
// and what lies above U+10FFFF are refused.
bool MayFollow(uint8_t lead, uint8_t second) {
  switch (lead) {
    case 0xE0:
      return second >= 0xA0 && second <= 0xBF;
    case 0xED:
      return second >= 0x80 && second <= 0x9F;
    case 0xF0:
      return second >= 0x90 && second <= 0xBF;
    case 0xF4:
      return second >= 0x80 && second <= 0x8F;
    default:
      return second >= 0x80 && second <= 0xBF;
  }
}

}  // namespace

Utf8Unit FirstUtf8Unit(absl::string_view bytes) {
  CHECK(!bytes.empty());
  const auto lead = static_cast<uint8_t>(bytes[0]);
  const size_t wanted = SizeByLead(lead);
  if (wanted == 1) return {Utf8Kind::kWhole, 1};
  if (wanted == 0) return {Utf8Kind::kBroken, 1};
  const size_t present = std::min(wanted, bytes.size());
  for (size_t i = 1; i < present; ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (!MayFollow(i == 1 ? lead : 0x80, byte)) return {Utf8Kind::kBroken, i};
  }
  return {present == wanted ? Utf8Kind::kWhole : Utf8Kind::kCut, present};
}

size_t ValidUtf8Size(absl::string_view bytes) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  size_t at = 0;
  while (at < bytes.size()) {
    uint64_t eight = 0;
    while (at + sizeof(eight) <= bytes.size()) {
      std::memcpy(&eight, bytes.data() + at, sizeof(eight));
      if ((eight & kHighBits) != 0) break;
      at += sizeof(eight);
    }
    if (at == bytes.size()) break;
    const Utf8Unit unit = FirstUtf8Unit(bytes.substr(at));
    if (unit.kind != Utf8Kind::kWhole) return at;
    at += unit.size;
  }
  return at;
}

}  // namespace phalanx
