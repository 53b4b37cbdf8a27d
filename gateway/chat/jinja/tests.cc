#include "gateway/chat/jinja/tests.h"

#include "absl/container/flat_hash_map.h"
#include "common/status.h"
#include "gateway/chat/jinja/filters.h"
#include "gateway/chat/jinja/names.h"
#include "gateway/chat/jinja/unicode.h"

namespace phalanx::jinja {
namespace {

using Result = absl::StatusOr<bool>;
using Kind = Value::Kind;

// A test without arguments.
template <bool (*kHolds)(const Value&)>
Result Plain(Interpreter&, const Value& value, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("the test", arguments, {}).status());
  return kHolds(value);
}

absl::StatusOr<Value> OnlyArgument(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("the test", arguments, {"other"}, 1));
  return bound[0];
}

bool Defined(const Value& v) { return !v.undefined(); }
bool IsUndefined(const Value& v) { return v.undefined(); }
bool IsNone(const Value& v) { return v.none(); }
bool IsTrue(const Value& v) { return v.kind() == Kind::kBool && v.boolean(); }
bool IsFalse(const Value& v) { return v.kind() == Kind::kBool && !v.boolean(); }
bool IsBoolean(const Value& v) { return v.kind() == Kind::kBool; }
bool IsInteger(const Value& v) { return v.kind() == Kind::kInt; }
bool IsFloat(const Value& v) { return v.kind() == Kind::kFloat; }
bool IsNumber(const Value& v) { return v.is_number(); }
bool IsString(const Value& v) { return v.is_string(); }
bool IsMapping(const Value& v) { return v.is_mapping(); }
bool IsEscaped(const Value& v) { return v.is_markup(); }

bool IsIterable(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kGenerator:
    case Kind::kRange:
    case Kind::kMapping:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

// What has a length and can be indexed.
bool IsSequence(const Value& v) {
  return v.is_list_or_tuple() || v.is_string() || v.is_mapping() ||
         v.kind() == Kind::kBytes || v.kind() == Kind::kRange;
}

bool IsCallable(const Value& v) {
  // A loop and an undefined value have a __call__, if only to complain.
  return v.undefined() || v.kind() == Kind::kLoop ||
         (v.kind() == Kind::kCallable &&
          v.callable().what != Callable::What::kCycler);
}

template <bool kEven>
Result Parity(Interpreter&, const Value& value, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("the test", arguments, {}).status());
  if (!value.is_integer()) {
    return absl::InvalidArgumentError("odd and even need an integer");
  }
  return (value.integer() % 2 == 0) == kEven;
}

Result DivisibleBy(Interpreter&, const Value& value,
                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Value divisor, OnlyArgument(arguments));
  if (!value.is_integer() || !divisor.is_integer()) {
    return absl::InvalidArgumentError("divisibleby needs integers");
  }
  if (divisor.integer() == 0) {
    return absl::InvalidArgumentError("division by zero");
  }
  // All are divisible by -1, but the most negative one cannot be divided.
  return divisor.integer() == -1 || value.integer() % divisor.integer() == 0;
}

template <bool kNegated>
Result EqualTo(Interpreter& interpreter, const Value& value,
               const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Value other, OnlyArgument(arguments));
  ASSIGN_OR_RETURN(const bool equal, interpreter.Equals(value, other));
  return equal != kNegated;
}

// value < other (kSwapped: other < value), or equal.
template <bool kSwapped, bool kOrEqual>
Result Ordered(Interpreter& interpreter, const Value& value,
               const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Value other, OnlyArgument(arguments));
  ASSIGN_OR_RETURN(const bool less, kSwapped
                                        ? interpreter.LessThan(other, value)
                                        : interpreter.LessThan(value, other));
  if (less || !kOrEqual) return less;
  return interpreter.Equals(value, other);
}

Result IsIn(Interpreter& interpreter, const Value& value,
            const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Value container, OnlyArgument(arguments));
  return interpreter.Contains(container, value);
}

Result IsSame(Interpreter&, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Value other, OnlyArgument(arguments));
  return value.SameAs(other);
}

// str(value).isupper() or islower().
template <bool kUpper>
Result AllCase(Interpreter& interpreter, const Value& value,
               const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("the test", arguments, {}).status());
  ASSIGN_OR_RETURN(const std::string text, interpreter.Text(value));
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = NextCodePoint(text, i);
    if (kUpper ? IsLower(c) : IsUpper(c)) return false;
    any = any || (kUpper ? IsUpper(c) : IsLower(c));
  }
  return any;
}

template <bool (*kKnown)(absl::string_view)>
Result IsNameOf(Interpreter&, const Value& value, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("the test", arguments, {}).status());
  return value.is_string() && kKnown(value.text());
}

}  // namespace

TestFunction FindTest(absl::string_view name) {
  // Never freed: threads may still render while the process ends.
  static const auto* const kTests =
      new absl::flat_hash_map<absl::string_view, TestFunction>{
          {"defined", Plain<Defined>},
          {"undefined", Plain<IsUndefined>},
          {"none", Plain<IsNone>},
          {"true", Plain<IsTrue>},
          {"false", Plain<IsFalse>},
          {"boolean", Plain<IsBoolean>},
          {"integer", Plain<IsInteger>},
          {"float", Plain<IsFloat>},
          {"number", Plain<IsNumber>},
          {"string", Plain<IsString>},
          {"mapping", Plain<IsMapping>},
          {"iterable", Plain<IsIterable>},
          {"sequence", Plain<IsSequence>},
          {"callable", Plain<IsCallable>},
          {"escaped", Plain<IsEscaped>},
          {"odd", Parity<false>},
          {"even", Parity<true>},
          {"divisibleby", DivisibleBy},
          {"eq", EqualTo<false>},
          {"==", EqualTo<false>},
          {"equalto", EqualTo<false>},
          {"ne", EqualTo<true>},
          {"!=", EqualTo<true>},
          {"lt", Ordered<false, false>},
          {"<", Ordered<false, false>},
          {"lessthan", Ordered<false, false>},
          {"le", Ordered<false, true>},
          {"<=", Ordered<false, true>},
          {"gt", Ordered<true, false>},
          {">", Ordered<true, false>},
          {"greaterthan", Ordered<true, false>},
          {"ge", Ordered<true, true>},
          {">=", Ordered<true, true>},
          {"in", IsIn},
          {"sameas", IsSame},
          {"lower", AllCase<false>},
          {"upper", AllCase<true>},
          {"filter", IsNameOf<IsFilter>},
          {"test", IsNameOf<IsTest>},
      };
  const auto place = kTests->find(name);
  return place == kTests->end() ? nullptr : place->second;
}

bool IsTest(absl::string_view name) { return FindTest(name) != nullptr; }

}  // namespace phalanx::jinja
