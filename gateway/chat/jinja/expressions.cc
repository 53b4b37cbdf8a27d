// How expressions are evaluated.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/interpreter.h"
#include "gateway/chat/jinja/names.h"
#include "gateway/chat/jinja/unicode.h"
#include "gateway/chat/jinja/value_text.h"

namespace phalanx::jinja {

absl::StatusOr<Value> Interpreter::Evaluate(const Expression& node) {
  line_ = node.line;
  RETURN_IF_ERROR(Charge(1));
  if (depth_ >= kMaxRenderDepth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluation is nested deeper than ", kMaxRenderDepth, " levels"));
  }
  ++depth_;
  absl::StatusOr<Value> value = EvaluateNode(node);
  --depth_;
  return value;
}

absl::StatusOr<Value> Interpreter::EvaluateNode(const Expression& node) {
  using Kind = Expression::Kind;
  switch (node.kind) {
    case Kind::kConstant:
      return node.constant;
    case Kind::kName:
      return Lookup(node.name);
    case Kind::kList:
    case Kind::kTuple: {
      ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(node.children));
      return node.kind == Kind::kList ? Value::List(std::move(items))
                                      : Value::Tuple(std::move(items));
    }
    case Kind::kDict:
      return EvaluateDict(node);
    case Kind::kAttribute: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
      return Attribute(value, node.name);
    }
    case Kind::kItem: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
      ASSIGN_OR_RETURN(const Value key, Evaluate(*node.children[1]));
      return Item(value, key);
    }
    case Kind::kSlice:
      return EvaluateSlice(node);
    case Kind::kCall: {
      ASSIGN_OR_RETURN(const Value callee, Evaluate(*node.children[0]));
      ASSIGN_OR_RETURN(const Arguments arguments,
                       EvaluateArguments(node.arguments));
      return Call(callee, arguments);
    }
    case Kind::kFilter:
      return EvaluateFilter(node);
    case Kind::kTest: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
      ASSIGN_OR_RETURN(const Arguments arguments,
                       EvaluateArguments(node.arguments));
      ASSIGN_OR_RETURN(const bool holds, Test(node.name, value, arguments));
      return Value::Bool(holds);
    }
    case Kind::kNot: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
      return Value::Bool(!value.Truthy());
    }
    case Kind::kNegative:
    case Kind::kPositive: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
      return Negate(value, node.kind == Kind::kNegative);
    }
    case Kind::kArithmetic: {
      ASSIGN_OR_RETURN(const Value left, Evaluate(*node.children[0]));
      ASSIGN_OR_RETURN(const Value right, Evaluate(*node.children[1]));
      return Arithmetic(node.name, left, right);
    }
    case Kind::kConcat:
      return EvaluateConcat(node);
    case Kind::kAnd:
    case Kind::kOr: {
      ASSIGN_OR_RETURN(Value left, Evaluate(*node.children[0]));
      if (left.Truthy() == (node.kind == Kind::kOr)) return left;
      return Evaluate(*node.children[1]);
    }
    case Kind::kCompare:
      return EvaluateCompare(node);
    case Kind::kConditional:
      return EvaluateConditional(node);
  }
  return absl::InternalError("unknown expression");
}

Value Interpreter::Lookup(const std::string& name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const auto place = scope->names.find(name);
    if (place != scope->names.end()) return place->second;
  }
  if (IsGlobal(name) && (name != "strftime_now" || options_.now_unix_seconds)) {
    auto callable = std::make_shared<Callable>();
    callable->what = Callable::What::kGlobal;
    callable->name = name;
    return Value::FromCallable(std::move(callable));
  }
  return Value::Undefined(absl::StrCat("'", name, "' is undefined"));
}

absl::StatusOr<std::vector<Value>> Interpreter::EvaluateAll(
    const std::vector<ExpressionPtr>& nodes) {
  std::vector<Value> values;
  values.reserve(nodes.size());
  for (const ExpressionPtr& node : nodes) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*node));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Value> Interpreter::EvaluateDict(const Expression& node) {
  auto mapping = std::make_shared<Mapping>();
  for (size_t i = 0; i < node.children.size(); i += 2) {
    ASSIGN_OR_RETURN(Value key, Evaluate(*node.children[i]));
    ASSIGN_OR_RETURN(Value value, Evaluate(*node.children[i + 1]));
    RETURN_IF_ERROR(ChargeKey(key));
    RETURN_IF_ERROR(mapping->Set(std::move(key), std::move(value)));
  }
  return Value::FromMapping(std::move(mapping));
}

absl::StatusOr<Value> Interpreter::EvaluateSlice(const Expression& node) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (node.children[i + 1] == nullptr) continue;
    ASSIGN_OR_RETURN(bounds[i], Evaluate(*node.children[i + 1]));
  }
  return Slice(value, bounds[0], bounds[1], bounds[2]);
}

namespace {

// Python's slice.indices: the positions a slice visits.
struct SliceRange {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
};

absl::StatusOr<SliceRange> ResolveSlice(int64_t length, const Value& start,
                                        const Value& stop, const Value& step) {
  SliceRange range;
  if (!step.none()) {
    ASSIGN_OR_RETURN(range.step, SmallInteger(step));
  }
  if (range.step == 0) {
    return absl::InvalidArgumentError("slice step cannot be zero");
  }
  // A step beyond the length visits one item, whatever its size.
  range.step = std::clamp(range.step, -length - 1, length + 1);
  const bool forward = range.step > 0;
  const int64_t lowest = forward ? 0 : -1;
  const int64_t highest = forward ? length : length - 1;
  const auto resolve = [&](const Value& bound,
                           int64_t missing) -> absl::StatusOr<int64_t> {
    if (bound.none()) return missing;
    ASSIGN_OR_RETURN(int64_t index, SmallInteger(bound));
    if (index < 0) index += length;
    return std::clamp(index, lowest, highest);
  };
  ASSIGN_OR_RETURN(range.start, resolve(start, forward ? lowest : highest));
  ASSIGN_OR_RETURN(range.stop, resolve(stop, forward ? highest : lowest));
  return range;
}

template <typename T>
std::vector<T> TakeSlice(const std::vector<T>& items, const SliceRange& range) {
  std::vector<T> taken;
  for (int64_t i = range.start;
       range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    taken.push_back(items[static_cast<size_t>(i)]);
  }
  return taken;
}

}  // namespace

absl::StatusOr<Value> Interpreter::Slice(const Value& value, const Value& start,
                                         const Value& stop, const Value& step) {
  if (value.undefined()) {
    return absl::InvalidArgumentError(value.undefined_message());
  }
  if (value.is_string()) {
    RETURN_IF_ERROR(
        ChargeText(8 * std::min(value.text().size(), max_text_bytes() / 8)));
    const std::vector<CodePoint> points = Decode(value.text());
    ASSIGN_OR_RETURN(
        const SliceRange range,
        ResolveSlice(static_cast<int64_t>(points.size()), start, stop, step));
    return NewText(Encode(TakeSlice(points, range)), value.is_markup());
  }
  if (!value.is_list_or_tuple() && value.kind() != Value::Kind::kRange) {
    return Value::Undefined(
        absl::StrCat(value.type_name(), " object has no such element"));
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(value));
  ASSIGN_OR_RETURN(
      const SliceRange range,
      ResolveSlice(static_cast<int64_t>(items.size()), start, stop, step));
  return value.kind() == Value::Kind::kTuple
             ? Value::Tuple(TakeSlice(items, range))
             : Value::List(TakeSlice(items, range));
}

absl::StatusOr<Value> Interpreter::EvaluateConcat(const Expression& node) {
  std::string text;
  for (const ExpressionPtr& child : node.children) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*child));
    RETURN_IF_ERROR(AppendText(value, max_text_bytes(), text));
  }
  return NewText(std::move(text));
}

absl::StatusOr<bool> Interpreter::Compare(absl::string_view op, const Value& a,
                                          const Value& b) {
  if (op == "==") return Equals(a, b);
  if (op == "in") return Contains(b, a);
  if (op == "<") return LessThan(a, b);
  if (op == ">") return LessThan(b, a);
  if (op == "!=") {
    ASSIGN_OR_RETURN(const bool equal, Equals(a, b));
    return !equal;
  }
  if (op == "not in") {
    ASSIGN_OR_RETURN(const bool contained, Contains(b, a));
    return !contained;
  }
  // Not the negation of the other order: NaN is neither.
  ASSIGN_OR_RETURN(const bool less,
                   op == "<=" ? LessThan(a, b) : LessThan(b, a));
  if (less) return true;
  return Equals(a, b);
}

absl::StatusOr<Value> Interpreter::EvaluateCompare(const Expression& node) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*node.children[0]));
  for (size_t i = 0; i < node.operators.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Evaluate(*node.children[i + 1]));
    ASSIGN_OR_RETURN(const bool holds, Compare(node.operators[i], left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<Value> Interpreter::EvaluateConditional(const Expression& node) {
  ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.children[1]));
  if (condition.Truthy()) return Evaluate(*node.children[0]);
  if (node.children[2] != nullptr) return Evaluate(*node.children[2]);
  return Value::Undefined("the inline if-expression was false and has no else");
}

absl::StatusOr<Value> Interpreter::EvaluateFilter(const Expression& node) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
  ASSIGN_OR_RETURN(const Arguments arguments,
                   EvaluateArguments(node.arguments));
  return Filter(node.name, value, arguments);
}

absl::StatusOr<Value> Interpreter::EvaluateBlockFilters(const Expression& node,
                                                        Value text) {
  if (node.children[0] != nullptr) {
    ASSIGN_OR_RETURN(text,
                     EvaluateBlockFilters(*node.children[0], std::move(text)));
  }
  line_ = node.line;
  ASSIGN_OR_RETURN(const Arguments arguments,
                   EvaluateArguments(node.arguments));
  return Filter(node.name, text, arguments);
}

absl::StatusOr<Arguments> Interpreter::EvaluateArguments(
    const CallArguments& nodes) {
  Arguments arguments;
  ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(nodes.positional));
  for (const auto& [name, node] : nodes.named) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*node));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (nodes.more_positional != nullptr) {
    ASSIGN_OR_RETURN(const Value more, Evaluate(*nodes.more_positional));
    ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(more));
    arguments.positional.insert(arguments.positional.end(), items.begin(),
                                items.end());
  }
  if (nodes.more_named != nullptr) {
    ASSIGN_OR_RETURN(const Value more, Evaluate(*nodes.more_named));
    if (!more.is_mapping()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "argument after ** must be a mapping, not ", more.type_name()));
    }
    for (const auto& [name, value] : more.mapping().entries) {
      RETURN_IF_ERROR(Charge(1));
      if (!name.is_string()) {
        return absl::InvalidArgumentError("keywords must be strings");
      }
      arguments.named.emplace_back(name.text(), value);
    }
  }
  return arguments;
}

}  // namespace phalanx::jinja
