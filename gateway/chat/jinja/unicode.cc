#include "gateway/chat/jinja/unicode.h"

namespace phalanx::jinja {

CodePoint NextCodePoint(absl::string_view text, size_t& position) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned char lead = byte(position);
  if (lead < 0x80) {
    ++position;
    return lead;
  }
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  static constexpr CodePoint kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool valid = lead >= 0xc2 && lead <= 0xf4 && position + length <= text.size();
  CodePoint c = lead & (0x7f >> length);
  for (size_t i = 1; valid && i < length; ++i) {
    valid = (byte(position + i) & 0xc0) == 0x80;
    c = (c << 6) | (byte(position + i) & 0x3f);
  }
  valid = valid && c >= kSmallest[length] && c <= 0x10ffff &&
          !(c >= 0xd800 && c <= 0xdfff);
  if (!valid) {
    ++position;
    return kInvalid + lead;
  }
  position += length;
  return c;
}

void AppendCodePoint(CodePoint c, std::string& out) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xc0 | (c >> 6)));
    out.push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | (c >> 12)));
    out.push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < kInvalid) {
    out.push_back(static_cast<char>(0xf0 | (c >> 18)));
    out.push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    out.push_back(static_cast<char>(c - kInvalid));
  }
}

std::vector<CodePoint> Decode(absl::string_view text) {
  std::vector<CodePoint> points;
  points.reserve(text.size());
  for (size_t i = 0; i < text.size();) points.push_back(NextCodePoint(text, i));
  return points;
}

std::string Encode(const std::vector<CodePoint>& points) {
  std::string out;
  out.reserve(points.size());
  for (CodePoint c : points) AppendCodePoint(c, out);
  return out;
}

int64_t CountCodePoints(absl::string_view text) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) NextCodePoint(text, i);
  return count;
}

absl::string_view StripLeft(absl::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    size_t next = begin;
    if (!IsSpace(NextCodePoint(text, next))) break;
    begin = next;
  }
  return text.substr(begin);
}

absl::string_view StripRight(absl::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    // Back to the lead byte: at most three continuation bytes.
    while (begin > 0 && end - begin < 4 &&
           (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) {
      --begin;
    }
    size_t next = begin;
    if (!IsSpace(NextCodePoint(text, next)) || next != end) break;
    end = begin;
  }
  return text.substr(0, end);
}

}  // namespace phalanx::jinja
