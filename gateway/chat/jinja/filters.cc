// Where filters are found, and those that fit in no other file: default,
// tojson, numbers.

#include "gateway/chat/jinja/filters.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "gateway/chat/jinja/json.h"
#include "gateway/chat/jinja/literals.h"
#include "gateway/chat/jinja/names.h"

namespace phalanx::jinja {
namespace {

using Result = absl::StatusOr<Value>;

// Deepest indent of one level that tojson takes.
constexpr int64_t kMaxIndent = 1'000;
// Digits that round() may keep or drop.
constexpr int64_t kMaxRoundDigits = 300;

absl::Status Invalid(absl::string_view message) {
  return absl::InvalidArgumentError(message);
}

Result Default(Interpreter&, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("default", arguments, {"default_value", "boolean"}));
  const bool replace =
      value.undefined() || (bound.TruthyOr(1, false) && !value.Truthy());
  return replace ? bound.ValueOr(0, Value::String("")) : value;
}

absl::StatusOr<JsonStyle> ReadJsonStyle(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind(
                       "tojson", arguments,
                       {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = bound.TruthyOr(0, false);
  style.sort_keys = bound.TruthyOr(3, false);
  if (bound.Has(1) && bound[1].is_string()) {
    style.indent = bound[1].text();
  } else if (bound.Has(1) && !bound[1].none()) {
    ASSIGN_OR_RETURN(const int64_t indent, SmallInteger(bound[1]));
    if (indent > kMaxIndent) {
      return Invalid(absl::StrCat("tojson's indent is ", indent,
                                  "; must be at most ", kMaxIndent));
    }
    style.indent =
        std::string(static_cast<size_t>(std::max<int64_t>(indent, 0)), ' ');
  }
  if (style.indent) style.item_separator = ",";
  if (bound.Has(2) && !bound[2].none()) {
    if (!bound[2].is_list_or_tuple() || bound[2].sequence().items.size() != 2 ||
        !bound[2].sequence().items[0].is_string() ||
        !bound[2].sequence().items[1].is_string()) {
      return Invalid("tojson's separators must be two strings");
    }
    style.item_separator = bound[2].sequence().items[0].text();
    style.key_separator = bound[2].sequence().items[1].text();
  }
  return style;
}

Result ToJson(Interpreter& interpreter, const Value& value,
              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const JsonStyle style, ReadJsonStyle(arguments));
  ASSIGN_OR_RETURN(std::string text,
                   DumpJson(value, style, interpreter.max_text_bytes()));
  return interpreter.NewText(std::move(text));
}

absl::StatusOr<double> ToDouble(const Value& value) {
  if (value.is_number()) return value.as_double();
  if (value.is_string()) return ParseFloat(value.text());
  return Invalid(value.undefined() ? value.undefined_message()
                                   : "the value is no number");
}

// The integer part, if 128 bits can hold it.
std::optional<Value> Truncate(double number) {
  if (!(number > -1e38 && number < 1e38)) return std::nullopt;
  return Value::Int(static_cast<Integer>(number));
}

Result ToInteger(Interpreter&, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("int", arguments, {"default", "base"}));
  ASSIGN_OR_RETURN(const int64_t base, bound.IntegerOr(1, 10));
  if (value.undefined()) return Invalid(value.undefined_message());
  if (value.is_integer()) return Value::Int(value.integer());
  if (value.is_string() && (base == 0 || (base >= 2 && base <= 36))) {
    const absl::StatusOr<Integer> integer =
        ParseInteger(value.text(), static_cast<int>(base));
    if (integer.ok()) return Value::Int(*integer);
  }
  const absl::StatusOr<double> number = ToDouble(value);
  const std::optional<Value> whole =
      number.ok() ? Truncate(*number) : std::nullopt;
  return whole ? *whole : bound.ValueOr(0, Value::Int(0));
}

Result ToFloat(Interpreter&, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("float", arguments, {"default"}));
  if (value.undefined()) return Invalid(value.undefined_message());
  const absl::StatusOr<double> number = ToDouble(value);
  return number.ok() ? Value::Float(*number)
                     : bound.ValueOr(0, Value::Float(0));
}

Result Absolute(Interpreter&, const Value& value, const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("abs", arguments, {}).status());
  if (value.kind() == Value::Kind::kFloat) {
    return Value::Float(std::abs(value.floating()));
  }
  if (!value.is_integer()) {
    return Invalid(value.undefined()
                       ? value.undefined_message()
                       : absl::StrCat("bad operand type for abs(): '",
                                      value.type_name(), "'"));
  }
  const Integer integer = value.integer();
  Integer size = integer;
  if (integer < 0 && __builtin_sub_overflow(Integer{0}, integer, &size)) {
    return Invalid("an integer needs more than 128 bits");
  }
  return Value::Int(size);
}

// To even, on the decimal digits, as Python rounds.
double RoundDigits(double value, int64_t digits) {
  if (!std::isfinite(value)) return value;
  if (digits >= 0) {
    return std::strtod(
        absl::StrFormat("%.*f", static_cast<int>(digits), value).c_str(),
        nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / scale) * scale;
}

Result Round(Interpreter&, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("round", arguments, {"precision", "method"}));
  ASSIGN_OR_RETURN(const int64_t digits, bound.IntegerOr(0, 0));
  ASSIGN_OR_RETURN(const std::string method, bound.TextOr(1, "common"));
  if (!value.is_number()) {
    return Invalid(value.undefined() ? value.undefined_message()
                                     : "round needs a number");
  }
  if (digits < -kMaxRoundDigits || digits > kMaxRoundDigits) {
    return Invalid(absl::StrCat("round's precision is ", digits, "; must be ",
                                -kMaxRoundDigits, "..", kMaxRoundDigits));
  }
  if (method == "common") {
    if (value.is_integer() && digits >= 0) return Value::Int(value.integer());
    const double rounded = RoundDigits(value.as_double(), digits);
    if (!value.is_integer()) return Value::Float(rounded);
    return Truncate(rounded).value_or(Value::Int(value.integer()));
  }
  if (method != "ceil" && method != "floor") {
    return Invalid("round's method must be common, ceil or floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value.as_double() * scale;
  return Value::Float(
      (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result Attr(Interpreter& interpreter, const Value& value,
            const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("attr", arguments, {"name"}, 1));
  ASSIGN_OR_RETURN(const std::string name, bound.TextOr(0, ""));
  RETURN_IF_ERROR(interpreter.ChargeText(name.size()));
  // Attributes only: the items of a mapping are not meant.
  if (value.is_mapping()) {
    return Value::Undefined(
        absl::StrCat("'dict object' has no attribute '", name, "'"));
  }
  return interpreter.Attribute(value, name);
}

}  // namespace

FilterFunction FindFilter(absl::string_view name) {
  // Never freed: threads may still render while the process ends.
  static const auto* const kFilters =
      new absl::flat_hash_map<absl::string_view, FilterFunction>{
          {"default", Default}, {"d", Default},     {"tojson", ToJson},
          {"int", ToInteger},   {"float", ToFloat}, {"abs", Absolute},
          {"round", Round},     {"attr", Attr},
      };
  const auto place = kFilters->find(name);
  if (place != kFilters->end()) return place->second;
  if (const FilterFunction text = FindTextFilter(name)) return text;
  if (const FilterFunction list = FindListFilter(name)) return list;
  return FindSelectionFilter(name);
}

bool IsFilter(absl::string_view name) { return FindFilter(name) != nullptr; }

}  // namespace phalanx::jinja
