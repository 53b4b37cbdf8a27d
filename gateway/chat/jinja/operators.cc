// Arithmetic.

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/format.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/value_text.h"

namespace phalanx::jinja {
namespace {

absl::Status Unsupported(absl::string_view op, const Value& a, const Value& b) {
  return absl::InvalidArgumentError(
      absl::StrCat("unsupported operand type(s) for ", op, ": '", a.type_name(),
                   "' and '", b.type_name(), "'"));
}

absl::Status Overflow() {
  return absl::InvalidArgumentError("an integer needs more than 128 bits");
}

absl::Status DivisionByZero() {
  return absl::InvalidArgumentError("division by zero");
}

// Both round to minus infinity, as Python does.
Integer FloorDivide(Integer a, Integer b) {
  const Integer quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

double FloorModulo(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

absl::StatusOr<Value> IntegerPower(Integer base, Integer exponent) {
  if (exponent < 0) {
    if (base == 0) return DivisionByZero();
    return Value::Float(
        std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base >= -1 && base <= 1) exponent = exponent > 0 ? 2 - exponent % 2 : 0;
  Integer result = 1;
  for (Integer i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return Overflow();
  }
  return Value::Int(result);
}

absl::StatusOr<Value> OfIntegers(absl::string_view op, Integer a, Integer b) {
  Integer result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) return Overflow();
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) return Overflow();
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) return Overflow();
  } else if (op == "**") {
    return IntegerPower(a, b);
  } else if (b == 0) {
    return DivisionByZero();
  } else if (op == "/") {
    return Value::Float(static_cast<double>(a) / static_cast<double>(b));
  } else if (b == -1) {
    // The most negative integer has no counterpart.
    if (op == "%") return Value::Int(0);
    if (__builtin_sub_overflow(Integer{0}, a, &result)) return Overflow();
  } else {
    result = FloorDivide(a, b);
    if (op == "%") result = a - result * b;
  }
  return Value::Int(result);
}

absl::StatusOr<Value> OfFloats(absl::string_view op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "**") return Value::Float(std::pow(a, b));
  if (b == 0) return DivisionByZero();
  if (op == "/") return Value::Float(a / b);
  if (op == "//") return Value::Float(std::floor(a / b));
  return Value::Float(FloorModulo(a, b));
}

}  // namespace

absl::StatusOr<Value> Interpreter::Arithmetic(absl::string_view op,
                                              const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->undefined()) {
      return absl::InvalidArgumentError(value->undefined_message());
    }
  }
  if (a.is_integer() && b.is_integer()) {
    return OfIntegers(op, a.integer(), b.integer());
  }
  if (a.is_number() && b.is_number()) {
    return OfFloats(op, a.as_double(), b.as_double());
  }
  if (op == "+") return Add(a, b);
  if (op == "*") return Multiply(a, b);
  if (op == "%" && a.is_string()) return FormatPercent(*this, a, b);
  return Unsupported(op, a, b);
}

absl::StatusOr<Value> Interpreter::Add(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    const bool markup = a.is_markup() || b.is_markup();
    RETURN_IF_ERROR(ChargeText(a.text().size() + b.text().size()));
    const auto part = [&](const Value& value) {
      return markup && !value.is_markup() ? EscapeHtml(value.text())
                                          : value.text();
    };
    return NewText(
        markup ? part(a) + part(b) : absl::StrCat(a.text(), b.text()), markup);
  }
  if (a.is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "can only concatenate str (not \"", b.type_name(), "\") to str"));
  }
  if (a.is_list_or_tuple() && a.kind() == b.kind()) {
    std::vector<Value> items = a.sequence().items;
    const std::vector<Value>& more = b.sequence().items;
    RETURN_IF_ERROR(Charge(static_cast<int64_t>(items.size() + more.size())));
    items.insert(items.end(), more.begin(), more.end());
    return a.kind() == Value::Kind::kList ? Value::List(std::move(items))
                                          : Value::Tuple(std::move(items));
  }
  return Unsupported("+", a, b);
}

absl::StatusOr<Value> Interpreter::Multiply(const Value& a, const Value& b) {
  if ((a.is_string() || a.is_list_or_tuple()) && b.is_integer()) {
    return Repeat(a, b);
  }
  if ((b.is_string() || b.is_list_or_tuple()) && a.is_integer()) {
    return Repeat(b, a);
  }
  return Unsupported("*", a, b);
}

absl::StatusOr<Value> Interpreter::Repeat(const Value& value,
                                          const Value& times) {
  ASSIGN_OR_RETURN(int64_t count, SmallInteger(times));
  const auto size = static_cast<int64_t>(
      value.is_string() ? value.text().size() : value.sequence().items.size());
  if (count < 0 || size == 0) count = 0;
  if (count > static_cast<int64_t>(max_text_bytes())) {
    return TooLong(max_text_bytes());
  }
  if (value.is_string()) {
    RETURN_IF_ERROR(ChargeText(static_cast<size_t>(size * count)));
    std::string text;
    text.reserve(static_cast<size_t>(size * count));
    for (int64_t i = 0; i < count; ++i) text += value.text();
    return value.is_markup() ? Value::Markup(std::move(text))
                             : Value::String(std::move(text));
  }
  RETURN_IF_ERROR(Charge(size * count));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(size * count));
  for (int64_t i = 0; i < count; ++i) {
    items.insert(items.end(), value.sequence().items.begin(),
                 value.sequence().items.end());
  }
  return value.kind() == Value::Kind::kList ? Value::List(std::move(items))
                                            : Value::Tuple(std::move(items));
}

absl::StatusOr<Value> Interpreter::Negate(const Value& value, bool negative) {
  if (value.undefined()) {
    return absl::InvalidArgumentError(value.undefined_message());
  }
  if (!value.is_number()) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad operand type for unary ", negative ? "-" : "+", ": '",
                     value.type_name(), "'"));
  }
  if (value.kind() == Value::Kind::kFloat) {
    return Value::Float(negative ? -value.floating() : value.floating());
  }
  if (!negative) return Value::Int(value.integer());
  return OfIntegers("-", 0, value.integer());
}

}  // namespace phalanx::jinja
