#include "gateway/cli/terminal_text.h"

namespace phalanx {

std::string WithoutControls(absl::string_view text) {
  std::string kept;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = text[i];
    const unsigned char next = i + 1 < text.size() ? text[i + 1] : 0;
    if (c == 0xC2 && next >= 0x80 && next <= 0x9F)
      ++i;
    else if ((c >= 0x20 && c != 0x7F) || c == '\n' || c == '\t')
      kept.push_back(text[i]);
  }
  return kept;
}

}  // namespace phalanx
