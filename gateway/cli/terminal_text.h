#ifndef PHALANX_GATEWAY_CLI_TERMINAL_TEXT_H_
#define PHALANX_GATEWAY_CLI_TERMINAL_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace phalanx {

// `text` without what a terminal would obey: C0 but for tab and newline, DEL,
// and C1 as UTF-8 spells it (C2 80 to C2 9F).
std::string WithoutControls(absl::string_view text);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_TERMINAL_TEXT_H_
