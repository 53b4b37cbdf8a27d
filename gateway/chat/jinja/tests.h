#ifndef PHALANX_GATEWAY_CHAT_JINJA_TESTS_H_
#define PHALANX_GATEWAY_CHAT_JINJA_TESTS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/arguments.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// What stands behind `is`. Errors: INVALID_ARGUMENT.
using TestFunction = absl::StatusOr<bool> (*)(Interpreter&, const Value&,
                                              const Arguments&);

// nullptr if there is no test of this name.
TestFunction FindTest(absl::string_view name);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_TESTS_H_
