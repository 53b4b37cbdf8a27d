#include "gateway/chat/jinja/interpreter.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/lexer.h"
#include "gateway/chat/jinja/methods.h"
#include "gateway/chat/jinja/unicode.h"
#include "gateway/chat/jinja/value_text.h"

namespace phalanx::jinja {
namespace {

constexpr int64_t kBytesPerStep = 32;

absl::Status TypeError(absl::string_view message) {
  return absl::InvalidArgumentError(message);
}

}  // namespace

Interpreter::Interpreter(const Mapping& context, const RenderOptions& options)
    : options_(options), steps_left_(options.max_steps) {
  for (const auto& [name, value] : context.entries) {
    if (name.is_string()) globals_.names[name.text()] = value;
  }
}

Interpreter::~Interpreter() {
  for (const std::shared_ptr<Namespace>& space : namespaces_) {
    space->attributes = Mapping();
  }
}

absl::StatusOr<std::string> Interpreter::Run(const Block& body) {
  std::string out;
  out_ = &out;
  const absl::StatusOr<Flow> flow = Execute(body);
  if (flow.ok()) return out;
  if (raised_) return flow.status();
  return ErrorAtLine(line_, flow.status().message());
}

absl::Status Interpreter::Raise(std::string message) {
  raised_ = true;
  return absl::InvalidArgumentError(message);
}

absl::Status Interpreter::Charge(int64_t count) {
  steps_left_ -= count;
  if (steps_left_ >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rendering takes more than ", options_.max_steps, " steps"));
}

absl::Status Interpreter::ChargeText(size_t bytes) {
  if (bytes > options_.max_text_bytes) return TooLong(options_.max_text_bytes);
  return Charge(static_cast<int64_t>(bytes) / kBytesPerStep);
}

absl::Status Interpreter::ChargeKey(const Value& key) {
  if (key.is_string()) return ChargeText(key.text().size());
  if (key.kind() != Value::Kind::kTuple) return absl::OkStatus();
  // Nested tuples may be long, but no longer than a key may be.
  return Charge(key.depth() > 1
                    ? static_cast<int64_t>(kMaxKeyBytes) / kBytesPerStep
                    : static_cast<int64_t>(key.sequence().items.size()));
}

absl::StatusOr<std::string> Interpreter::Text(const Value& value) {
  std::string text;
  RETURN_IF_ERROR(AppendText(value, options_.max_text_bytes, text));
  RETURN_IF_ERROR(ChargeText(text.size()));
  return text;
}

absl::StatusOr<Value> Interpreter::NewText(std::string text, bool markup) {
  RETURN_IF_ERROR(ChargeText(text.size()));
  return markup ? Value::Markup(std::move(text))
                : Value::String(std::move(text));
}

Value Interpreter::NewNamespace() {
  auto space = std::make_shared<Namespace>();
  namespaces_.push_back(space);
  return Value::FromNamespace(std::move(space));
}

absl::StatusOr<std::vector<Value>> Interpreter::Iterate(const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return items;
    case Value::Kind::kList:
    case Value::Kind::kTuple:
    case Value::Kind::kView:
      items = value.sequence().items;
      break;
    case Value::Kind::kGenerator: {
      Sequence& generator = value.sequence();
      items.assign(generator.items.begin() + generator.taken,
                   generator.items.end());
      generator.taken = generator.items.size();
      break;
    }
    case Value::Kind::kRange:
      for (int64_t i = 0; i < value.range().size(); ++i) {
        items.push_back(
            Value::Int(value.range().start + i * value.range().step));
      }
      break;
    case Value::Kind::kMapping:
      for (const auto& [key, item] : value.mapping().entries) {
        items.push_back(key);
      }
      break;
    case Value::Kind::kString: {
      RETURN_IF_ERROR(Charge(static_cast<int64_t>(value.text().size())));
      const absl::string_view text = value.text();
      for (size_t i = 0; i < text.size();) {
        const size_t start = i;
        NextCodePoint(text, i);
        items.push_back(
            Value::String(std::string(text.substr(start, i - start))));
      }
      break;
    }
    default:
      return TypeError(
          absl::StrCat("'", value.type_name(), "' object is not iterable"));
  }
  RETURN_IF_ERROR(Charge(static_cast<int64_t>(items.size())));
  return items;
}

absl::StatusOr<int64_t> Interpreter::Length(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return 0;
    case Value::Kind::kString:
      RETURN_IF_ERROR(ChargeText(value.text().size()));
      return CountCodePoints(value.text());
    case Value::Kind::kBytes:
      return static_cast<int64_t>(value.text().size());
    case Value::Kind::kList:
    case Value::Kind::kTuple:
    case Value::Kind::kView:
      return static_cast<int64_t>(value.sequence().items.size());
    case Value::Kind::kRange:
      return value.range().size();
    case Value::Kind::kMapping:
      return static_cast<int64_t>(value.mapping().entries.size());
    case Value::Kind::kLoop:
      return static_cast<int64_t>(value.loop().length);
    default:
      return TypeError(absl::StrCat("object of type '", value.type_name(),
                                    "' has no len()"));
  }
}

absl::StatusOr<bool> Interpreter::Equals(const Value& a, const Value& b) {
  const bool equal = Equal(a, b, steps_left_);
  RETURN_IF_ERROR(Charge(0));
  return equal;
}

absl::StatusOr<bool> Interpreter::LessThan(const Value& a, const Value& b) {
  ASSIGN_OR_RETURN(const bool less, Less(a, b, steps_left_));
  RETURN_IF_ERROR(Charge(0));
  return less;
}

absl::StatusOr<bool> Interpreter::Contains(const Value& haystack,
                                           const Value& needle) {
  switch (haystack.kind()) {
    case Value::Kind::kString:
      if (!needle.is_string()) {
        return TypeError(
            absl::StrCat("'in <string>' requires string as left operand, not ",
                         needle.type_name()));
      }
      RETURN_IF_ERROR(ChargeText(haystack.text().size()));
      return absl::StrContains(haystack.text(), needle.text());
    case Value::Kind::kMapping:
      RETURN_IF_ERROR(ChargeKey(needle));
      if (!KeyOf(needle) && !needle.undefined()) {
        return TypeError(
            absl::StrCat("unhashable type: '", needle.type_name(), "'"));
      }
      return haystack.mapping().Find(needle) != nullptr;
    case Value::Kind::kUndefined:
    case Value::Kind::kList:
    case Value::Kind::kTuple:
    case Value::Kind::kView:
    case Value::Kind::kGenerator:
    case Value::Kind::kRange: {
      ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(haystack));
      for (const Value& item : items) {
        ASSIGN_OR_RETURN(const bool equal, Equals(item, needle));
        if (equal) return true;
      }
      return false;
    }
    default:
      return TypeError(absl::StrCat("argument of type '", haystack.type_name(),
                                    "' is not iterable"));
  }
}

namespace {

absl::string_view ObjectName(const Value& value) {
  return value.none() ? "None" : value.type_name();
}

Value NoAttribute(const Value& value, absl::string_view name) {
  return Value::Undefined(absl::StrCat("'", ObjectName(value),
                                       value.none() ? "" : " object",
                                       "' has no attribute '", name, "'"));
}

Value NoItem(const Value& value, const Value& key) {
  return Value::Undefined(
      key.is_string()
          ? NoAttribute(value, key.text()).undefined_message()
          : absl::StrCat(ObjectName(value), " object has no such element"));
}

// A built-in attribute: a method or a macro's name. Nullopt if there is none.
absl::StatusOr<std::optional<Value>> OwnAttribute(const Value& value,
                                                  absl::string_view name) {
  if (value.kind() == Value::Kind::kCallable &&
      value.callable().what == Callable::What::kMacro) {
    const MacroDefinition& macro = *value.callable().definition;
    if (name == "name") return Value::String(macro.name);
    if (name == "arguments") {
      std::vector<Value> names;
      for (const Parameter& parameter : macro.parameters) {
        names.push_back(Value::String(parameter.name));
      }
      ASSIGN_OR_RETURN(Value arguments, Value::Tuple(std::move(names)));
      return arguments;
    }
  }
  if (value.kind() == Value::Kind::kCallable &&
      value.callable().what == Callable::What::kCycler && name == "current") {
    const Callable& cycler = value.callable();
    return cycler.items[cycler.position % cycler.items.size()];
  }
  // The sandbox hides whatever starts with an underscore.
  if (absl::StartsWith(name, "_") || !HasMethod(value, name)) {
    return std::nullopt;
  }
  auto method = std::make_shared<Callable>();
  method->what = Callable::What::kMethod;
  method->name = std::string(name);
  method->self = value;
  return Value::FromCallable(std::move(method));
}

}  // namespace

absl::StatusOr<Value> Interpreter::Attribute(const Value& value,
                                             absl::string_view name) {
  if (value.undefined()) return TypeError(value.undefined_message());
  if (value.kind() == Value::Kind::kLoop) return LoopAttribute(value, name);
  if (value.kind() == Value::Kind::kNamespace) {
    const Value* found = absl::StartsWith(name, "_")
                             ? nullptr
                             : value.space().attributes.Find(name);
    return found != nullptr ? *found : NoAttribute(value, name);
  }
  ASSIGN_OR_RETURN(std::optional<Value> own, OwnAttribute(value, name));
  if (own) return *std::move(own);
  if (value.is_mapping()) {
    if (const Value* found = value.mapping().Find(name)) return *found;
  }
  return NoAttribute(value, name);
}

absl::StatusOr<Value> Interpreter::Item(const Value& value, const Value& key) {
  if (value.undefined()) return TypeError(value.undefined_message());
  RETURN_IF_ERROR(ChargeKey(key));
  if (value.is_mapping()) {
    if (const Value* found = value.mapping().Find(key)) return *found;
  }
  const bool indexed = value.is_list_or_tuple() || value.is_string() ||
                       value.kind() == Value::Kind::kRange;
  if (indexed && key.is_integer()) {
    ASSIGN_OR_RETURN(const int64_t length, Length(value));
    Integer index = key.integer();
    if (index < 0) index += length;
    if (index < 0 || index >= length) return NoItem(value, key);
    const auto at = static_cast<size_t>(index);
    if (value.is_list_or_tuple()) return value.sequence().items[at];
    if (value.kind() == Value::Kind::kRange) {
      return Value::Int(value.range().start + value.range().step * index);
    }
    const absl::string_view text = value.text();
    size_t position = 0;
    for (size_t i = 0; i < at; ++i) NextCodePoint(text, position);
    const size_t start = position;
    NextCodePoint(text, position);
    return NewText(std::string(text.substr(start, position - start)),
                   value.is_markup());
  }
  if (!key.is_string()) return NoItem(value, key);
  if (value.kind() == Value::Kind::kNamespace ||
      value.kind() == Value::Kind::kLoop) {
    return Attribute(value, key.text());
  }
  ASSIGN_OR_RETURN(std::optional<Value> own, OwnAttribute(value, key.text()));
  return own ? *std::move(own) : NoItem(value, key);
}

}  // namespace phalanx::jinja
