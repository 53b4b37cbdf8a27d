#ifndef PHALANX_GATEWAY_CHAT_JINJA_METHODS_H_
#define PHALANX_GATEWAY_CHAT_JINJA_METHODS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/arguments.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// Does a value of this type have a method of this name? Those that change a
// value (append, pop, update ...) are none: the sandbox forbids them.
bool HasMethod(const Value& value, absl::string_view name);

// Calls it. Requires HasMethod. Errors: INVALID_ARGUMENT.
absl::StatusOr<Value> CallMethod(Interpreter& interpreter, const Value& self,
                                 absl::string_view name,
                                 const Arguments& arguments);

using Method = absl::StatusOr<Value> (*)(Interpreter&, const Value& self,
                                         const Arguments&);

// nullptr if strings have no such method (string_methods.cc).
Method FindStringMethod(absl::string_view name);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_METHODS_H_
