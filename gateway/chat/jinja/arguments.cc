#include "gateway/chat/jinja/arguments.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace phalanx::jinja {

absl::StatusOr<BoundArguments> BoundArguments::Bind(
    absl::string_view function, const Arguments& arguments,
    std::initializer_list<absl::string_view> parameters, size_t required) {
  BoundArguments bound;
  bound.function_ = std::string(function);
  bound.values_.resize(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(function, "() takes at most ", parameters.size(),
                     " arguments, got ", arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.values_[i] = arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < parameters.size() && parameters.begin()[i] != name) ++i;
    if (i == parameters.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(function, "() takes no argument named '", name, "'"));
    }
    if (bound.Has(i)) {
      return absl::InvalidArgumentError(
          absl::StrCat(function, "() was given '", name, "' more than once"));
    }
    bound.values_[i] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!bound.Has(i)) {
      return absl::InvalidArgumentError(absl::StrCat(
          function, "() needs argument '", parameters.begin()[i], "'"));
    }
  }
  return bound;
}

Value BoundArguments::ValueOr(size_t i, Value otherwise) const {
  return Has(i) ? *values_[i] : std::move(otherwise);
}

bool BoundArguments::TruthyOr(size_t i, bool otherwise) const {
  return Has(i) ? values_[i]->Truthy() : otherwise;
}

absl::StatusOr<int64_t> BoundArguments::IntegerOr(size_t i,
                                                  int64_t otherwise) const {
  if (!Has(i)) return otherwise;
  return SmallInteger(*values_[i]);
}

absl::StatusOr<std::string> BoundArguments::TextOr(
    size_t i, absl::string_view otherwise) const {
  if (!Has(i) || values_[i]->none()) return std::string(otherwise);
  if (!values_[i]->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(function_, "() needs a string as argument ", i + 1,
                     ", not ", values_[i]->type_name()));
  }
  return values_[i]->text();
}

absl::StatusOr<int64_t> SmallInteger(const Value& value) {
  if (!value.is_integer()) {
    return absl::InvalidArgumentError(
        value.undefined() ? value.undefined_message()
                          : absl::StrCat("'", value.type_name(),
                                         "' object is not an integer"));
  }
  const Integer integer = value.integer();
  if (integer > std::numeric_limits<int64_t>::max() ||
      integer < std::numeric_limits<int64_t>::min()) {
    return absl::InvalidArgumentError("an integer has more than 64 bits");
  }
  return static_cast<int64_t>(integer);
}

}  // namespace phalanx::jinja
