#ifndef PHALANX_GATEWAY_CHAT_JINJA_FILTERS_H_
#define PHALANX_GATEWAY_CHAT_JINJA_FILTERS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/arguments.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// What stands behind a bar. Errors: INVALID_ARGUMENT.
using FilterFunction = absl::StatusOr<Value> (*)(Interpreter&, const Value&,
                                                 const Arguments&);

// nullptr if there is no filter of this name.
FilterFunction FindFilter(absl::string_view name);

// The same for the filters of one file each.
FilterFunction FindTextFilter(absl::string_view name);
FilterFunction FindListFilter(absl::string_view name);
FilterFunction FindSelectionFilter(absl::string_view name);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_FILTERS_H_
