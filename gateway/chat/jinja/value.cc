#include "gateway/chat/jinja/value.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "gateway/chat/jinja/unicode.h"

namespace phalanx::jinja {

int64_t Range::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Value Value::Undefined(std::string message) {
  Value value;
  value.kind_ = Kind::kUndefined;
  value.payload_ = std::make_shared<std::string>(std::move(message));
  return value;
}

Value Value::Bool(bool flag) {
  Value value;
  value.kind_ = Kind::kBool;
  value.number_.integer = flag ? 1 : 0;
  return value;
}

Value Value::Int(Integer integer) {
  Value value;
  value.kind_ = Kind::kInt;
  value.number_.integer = integer;
  return value;
}

Value Value::Float(double floating) {
  Value value;
  value.kind_ = Kind::kFloat;
  value.number_.floating = floating;
  return value;
}

Value Value::String(std::string text) {
  Value value;
  value.kind_ = Kind::kString;
  value.payload_ = std::make_shared<std::string>(std::move(text));
  return value;
}

Value Value::Markup(std::string text) {
  Value value = String(std::move(text));
  value.markup_ = true;
  return value;
}

Value Value::Bytes(std::string text) {
  Value value = String(std::move(text));
  value.kind_ = Kind::kBytes;
  return value;
}

Value Value::FromRange(Range range) {
  Value value;
  value.kind_ = Kind::kRange;
  value.payload_ = std::make_shared<Range>(range);
  return value;
}

Value Value::FromNamespace(std::shared_ptr<Namespace> space) {
  Value value;
  value.kind_ = Kind::kNamespace;
  value.payload_ = std::move(space);
  return value;
}

Value Value::FromCallable(std::shared_ptr<Callable> callable) {
  Value value;
  value.kind_ = Kind::kCallable;
  int depth = callable->self.depth();
  for (const Value& item : callable->items) {
    depth = std::max(depth, item.depth());
  }
  // One above a list's bound at most: callables hold no callables with depth.
  value.depth_ = static_cast<int16_t>(depth + 1);
  value.payload_ = std::move(callable);
  return value;
}

Value Value::FromLoop(std::shared_ptr<LoopState> loop) {
  Value value;
  value.kind_ = Kind::kLoop;
  value.payload_ = std::move(loop);
  return value;
}

absl::StatusOr<Value> Value::FromItems(Kind kind, std::string label,
                                       std::vector<Value> items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  if (depth >= kMaxValueDepth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a value is nested deeper than ", kMaxValueDepth, " levels"));
  }
  Value value;
  value.kind_ = kind;
  value.depth_ = static_cast<int16_t>(depth + 1);
  value.payload_ = std::make_shared<Sequence>(
      Sequence{std::move(items), std::move(label), 0});
  return value;
}

absl::StatusOr<Value> Value::List(std::vector<Value> items) {
  return FromItems(Kind::kList, "", std::move(items));
}

absl::StatusOr<Value> Value::Tuple(std::vector<Value> items) {
  return FromItems(Kind::kTuple, "", std::move(items));
}

absl::StatusOr<Value> Value::View(std::string label, std::vector<Value> items) {
  return FromItems(Kind::kView, std::move(label), std::move(items));
}

absl::StatusOr<Value> Value::Generator(std::string label,
                                       std::vector<Value> items) {
  return FromItems(Kind::kGenerator, std::move(label), std::move(items));
}

absl::StatusOr<Value> Value::FromMapping(std::shared_ptr<Mapping> mapping) {
  int depth = 0;
  for (const auto& [key, item] : mapping->entries) {
    depth = std::max({depth, key.depth(), item.depth()});
  }
  if (depth >= kMaxValueDepth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a value is nested deeper than ", kMaxValueDepth, " levels"));
  }
  Value value;
  value.kind_ = Kind::kMapping;
  value.depth_ = static_cast<int16_t>(depth + 1);
  value.payload_ = std::move(mapping);
  return value;
}

double Value::as_double() const {
  return kind_ == Kind::kFloat ? floating() : static_cast<double>(integer());
}

const std::string& Value::text() const {
  DCHECK(kind_ == Kind::kString || kind_ == Kind::kBytes);
  return *static_cast<const std::string*>(payload_.get());
}

Sequence& Value::sequence() const {
  DCHECK(is_list_or_tuple() || kind_ == Kind::kView ||
         kind_ == Kind::kGenerator);
  return *static_cast<Sequence*>(payload_.get());
}

const Range& Value::range() const {
  DCHECK(kind_ == Kind::kRange);
  return *static_cast<const Range*>(payload_.get());
}

const Mapping& Value::mapping() const {
  DCHECK(kind_ == Kind::kMapping);
  return *static_cast<const Mapping*>(payload_.get());
}

Namespace& Value::space() const {
  DCHECK(kind_ == Kind::kNamespace);
  return *static_cast<Namespace*>(payload_.get());
}

Callable& Value::callable() const {
  DCHECK(kind_ == Kind::kCallable);
  return *static_cast<Callable*>(payload_.get());
}

LoopState& Value::loop() const {
  DCHECK(kind_ == Kind::kLoop);
  return *static_cast<LoopState*>(payload_.get());
}

const std::string& Value::undefined_message() const {
  DCHECK(undefined());
  return *static_cast<const std::string*>(payload_.get());
}

bool Value::SameAs(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return integer() == other.integer();
    case Kind::kFloat:
      return floating() == other.floating();
    case Kind::kString:
      return text() == other.text();
    default:
      return payload_ == other.payload_;
  }
}

bool Value::Truthy() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return integer() != 0;
    case Kind::kFloat:
      return floating() != 0;
    case Kind::kString:
    case Kind::kBytes:
      return !text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return !sequence().items.empty();
    case Kind::kRange:
      return range().size() > 0;
    case Kind::kMapping:
      return !mapping().entries.empty();
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kCallable:
    case Kind::kLoop:
      return true;
  }
  return true;
}

absl::string_view Value::type_name() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kBytes:
      return "bytes";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kView:
      return "dict view";
    case Kind::kGenerator:
      return "generator";
    case Kind::kRange:
      return "range";
    case Kind::kMapping:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kCallable:
      return "function";
    case Kind::kLoop:
      return "LoopContext";
  }
  return "object";
}

std::optional<std::string> KeyOf(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kString:
      return "s" + value.text();
    case Value::Kind::kNone:
      return "n";
    case Value::Kind::kBool:
    case Value::Kind::kInt:
    case Value::Kind::kFloat: {
      // Equal numbers of different types are one key.
      const double number = value.as_double();
      if (value.kind() == Value::Kind::kFloat &&
          (std::floor(number) != number || std::abs(number) > 1e18)) {
        return absl::StrCat("f", absl::Hex(std::bit_cast<uint64_t>(number)));
      }
      const Integer integer = value.kind() == Value::Kind::kFloat
                                  ? static_cast<Integer>(number)
                                  : value.integer();
      return absl::StrCat("i", static_cast<int64_t>(integer >> 64), ":",
                          static_cast<uint64_t>(integer));
    }
    case Value::Kind::kTuple: {
      std::string key = "t";
      for (const Value& item : value.sequence().items) {
        std::optional<std::string> part = KeyOf(item);
        if (!part || key.size() + part->size() > kMaxKeyBytes) {
          return std::nullopt;
        }
        absl::StrAppend(&key, part->size(), ":", *part);
      }
      return key;
    }
    default:
      return std::nullopt;
  }
}

absl::Status Mapping::Set(Value key, Value value) {
  std::optional<std::string> id = KeyOf(key);
  if (!id) {
    return absl::InvalidArgumentError(
        absl::StrCat("unhashable type: '", key.type_name(), "'"));
  }
  const auto [place, added] = index.emplace(*std::move(id), entries.size());
  if (added) {
    entries.emplace_back(std::move(key), std::move(value));
  } else {
    entries[place->second].second = std::move(value);
  }
  return absl::OkStatus();
}

const Value* Mapping::Find(const Value& key) const {
  const std::optional<std::string> id = KeyOf(key);
  if (!id) return nullptr;
  const auto place = index.find(*id);
  return place == index.end() ? nullptr : &entries[place->second].second;
}

const Value* Mapping::Find(absl::string_view name) const {
  const auto place = index.find(absl::StrCat("s", name));
  return place == index.end() ? nullptr : &entries[place->second].second;
}

namespace {

// What a comparison of two texts costs beyond the pair itself.
constexpr int64_t kBytesPerStep = 64;

bool EqualMappings(const Mapping& a, const Mapping& b, int64_t& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(
      a.entries.begin(), a.entries.end(), [&](const auto& entry) {
        const Value* other = b.Find(entry.first);
        return other != nullptr && Equal(entry.second, *other, budget);
      });
}

bool EqualSequences(const std::vector<Value>& a, const std::vector<Value>& b,
                    int64_t& budget) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [&](const Value& x, const Value& y) { return Equal(x, y, budget); });
}

}  // namespace

bool Equal(const Value& a, const Value& b, int64_t& budget) {
  if (--budget < 0) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
    return a.as_double() == b.as_double();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kUndefined:
      return true;
    case Value::Kind::kString:
    case Value::Kind::kBytes:
      if (a.text().size() != b.text().size()) return false;
      budget -= static_cast<int64_t>(a.text().size()) / kBytesPerStep;
      return a.text() == b.text();
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      return a.SameAs(b) ||
             EqualSequences(a.sequence().items, b.sequence().items, budget);
    case Value::Kind::kMapping:
      return a.SameAs(b) || EqualMappings(a.mapping(), b.mapping(), budget);
    case Value::Kind::kRange:
      return a.range().start == b.range().start &&
             a.range().size() == b.range().size() &&
             a.range().step == b.range().step;
    default:
      return a.SameAs(b);
  }
}

absl::StatusOr<bool> Less(const Value& a, const Value& b, int64_t& budget) {
  if (--budget < 0) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() < b.integer();
    return a.as_double() < b.as_double();
  }
  // UTF-8 keeps the order of code points.
  if (a.is_string() && b.is_string()) {
    budget -= static_cast<int64_t>(std::min(a.text().size(), b.text().size())) /
              kBytesPerStep;
    return a.text() < b.text();
  }
  if (a.kind() == b.kind() && a.is_list_or_tuple()) {
    const std::vector<Value>& x = a.sequence().items;
    const std::vector<Value>& y = b.sequence().items;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!Equal(x[i], y[i], budget)) return Less(x[i], y[i], budget);
    }
    return x.size() < y.size();
  }
  for (const Value* value : {&a, &b}) {
    if (value->undefined()) {
      return absl::InvalidArgumentError(value->undefined_message());
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'<' not supported between instances of '", a.type_name(),
                   "' and '", b.type_name(), "'"));
}

}  // namespace phalanx::jinja
