#ifndef PHALANX_GATEWAY_CHAT_JINJA_FORMAT_H_
#define PHALANX_GATEWAY_CHAT_JINJA_FORMAT_H_

#include "absl/status/statusor.h"
#include "gateway/chat/jinja/arguments.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// Python's "format % value" for d i u x X o c e E f F g G s r a %. `format` is
// a string. Errors: INVALID_ARGUMENT.
absl::StatusOr<Value> FormatPercent(Interpreter& interpreter,
                                    const Value& format, const Value& value);

// Python's format.format(*positional, **named) for fields {}, {0}, {name},
// {0[key]}, {0.attribute}, conversions !s and !r, and the specifications of
// strings and numbers. Errors: INVALID_ARGUMENT.
absl::StatusOr<Value> FormatBraces(Interpreter& interpreter,
                                   const Value& format,
                                   const Arguments& arguments);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_FORMAT_H_
