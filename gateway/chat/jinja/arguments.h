#ifndef PHALANX_GATEWAY_CHAT_JINJA_ARGUMENTS_H_
#define PHALANX_GATEWAY_CHAT_JINJA_ARGUMENTS_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/value.h"

namespace phalanx::jinja {

// What a call was given, evaluated.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Arguments matched to the parameters of a built-in function. All getters name
// a parameter by its place. Errors are INVALID_ARGUMENT.
class BoundArguments {
 public:
  // Errors: too many, unknown or doubled ones; fewer than `required`.
  static absl::StatusOr<BoundArguments> Bind(
      absl::string_view function, const Arguments& arguments,
      std::initializer_list<absl::string_view> parameters, size_t required = 0);

  bool Has(size_t i) const { return values_[i].has_value(); }
  // Requires Has(i).
  const Value& operator[](size_t i) const { return *values_[i]; }
  Value ValueOr(size_t i, Value otherwise) const;
  bool TruthyOr(size_t i, bool otherwise) const;
  absl::StatusOr<int64_t> IntegerOr(size_t i, int64_t otherwise) const;
  // None counts as not given.
  absl::StatusOr<std::string> TextOr(size_t i,
                                     absl::string_view otherwise) const;

 private:
  std::string function_;
  std::vector<std::optional<Value>> values_;
};

// An integer that fits in 64 bits. Errors: INVALID_ARGUMENT.
absl::StatusOr<int64_t> SmallInteger(const Value& value);

}  // namespace phalanx::jinja

#endif  // PHALANX_GATEWAY_CHAT_JINJA_ARGUMENTS_H_
