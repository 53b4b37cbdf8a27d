#ifndef PHALANX_GATEWAY_CHAT_JINJA_NAMES_H_
#define PHALANX_GATEWAY_CHAT_JINJA_NAMES_H_

#include "absl/strings/string_view.h"

namespace phalanx::jinja {

// Is there a filter, test or global function of this name? Pure; any thread.
bool IsFilter(absl::string_view name);
bool IsTest(absl::string_view name);
bool IsGlobal(absl::string_view name);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_NAMES_H_
