#include "gateway/chat/jinja/methods.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"

namespace phalanx::jinja {
namespace {

absl::StatusOr<Value> Items(Interpreter& interpreter, const Value& self,
                            const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("items", arguments, {}).status());
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.mapping().entries) {
    RETURN_IF_ERROR(interpreter.Charge(2));
    ASSIGN_OR_RETURN(Value pair, Value::Tuple({key, value}));
    pairs.push_back(std::move(pair));
  }
  return Value::View("dict_items", std::move(pairs));
}

absl::StatusOr<Value> Keys(Interpreter& interpreter, const Value& self,
                           const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("keys", arguments, {}).status());
  ASSIGN_OR_RETURN(std::vector<Value> keys, interpreter.Iterate(self));
  return Value::View("dict_keys", std::move(keys));
}

absl::StatusOr<Value> Values(Interpreter& interpreter, const Value& self,
                             const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("values", arguments, {}).status());
  std::vector<Value> values;
  for (const auto& [key, value] : self.mapping().entries) {
    RETURN_IF_ERROR(interpreter.Charge(1));
    values.push_back(value);
  }
  return Value::View("dict_values", std::move(values));
}

absl::StatusOr<Value> Get(Interpreter& interpreter, const Value& self,
                          const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("get", arguments, {"key", "default"}, 1));
  RETURN_IF_ERROR(interpreter.ChargeKey(bound[0]));
  if (!KeyOf(bound[0]) && !bound[0].undefined()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unhashable type: '", bound[0].type_name(), "'"));
  }
  const Value* found = self.mapping().Find(bound[0]);
  return found != nullptr ? *found : bound.ValueOr(1, Value());
}

// Values cannot be changed, so a copy is the value itself.
absl::StatusOr<Value> Copy(Interpreter&, const Value& self,
                           const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("copy", arguments, {}).status());
  return self;
}

absl::StatusOr<Value> CountItem(Interpreter& interpreter, const Value& self,
                                const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("count", arguments, {"value"}, 1));
  int64_t count = 0;
  for (const Value& item : self.sequence().items) {
    ASSIGN_OR_RETURN(const bool equal, interpreter.Equals(item, bound[0]));
    count += equal ? 1 : 0;
  }
  return Value::Int(count);
}

absl::StatusOr<Value> IndexOfItem(Interpreter& interpreter, const Value& self,
                                  const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("index", arguments, {"value"}, 1));
  const std::vector<Value>& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, interpreter.Equals(items[i], bound[0]));
    if (equal) return Value::Int(static_cast<int64_t>(i));
  }
  return absl::InvalidArgumentError("the value is not in the list");
}

absl::StatusOr<Value> NextOfCycle(Interpreter&, const Value& self,
                                  const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("next", arguments, {}).status());
  Callable& cycler = self.callable();
  const Value item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}

absl::StatusOr<Value> ResetCycle(Interpreter&, const Value& self,
                                 const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("reset", arguments, {}).status());
  self.callable().position = 0;
  return Value();
}

Method FindMappingMethod(absl::string_view name) {
  if (name == "items") return Items;
  if (name == "get") return Get;
  if (name == "keys") return Keys;
  if (name == "values") return Values;
  if (name == "copy") return Copy;
  return nullptr;
}

Method FindMethod(const Value& value, absl::string_view name) {
  switch (value.kind()) {
    case Value::Kind::kString:
      return FindStringMethod(name);
    case Value::Kind::kMapping:
      return FindMappingMethod(name);
    case Value::Kind::kList:
      if (name == "copy") return Copy;
      [[fallthrough]];
    case Value::Kind::kTuple:
      if (name == "count") return CountItem;
      if (name == "index") return IndexOfItem;
      return nullptr;
    case Value::Kind::kCallable:
      if (value.callable().what != Callable::What::kCycler) return nullptr;
      if (name == "next") return NextOfCycle;
      if (name == "reset") return ResetCycle;
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

bool HasMethod(const Value& value, absl::string_view name) {
  return FindMethod(value, name) != nullptr;
}

absl::StatusOr<Value> CallMethod(Interpreter& interpreter, const Value& self,
                                 absl::string_view name,
                                 const Arguments& arguments) {
  const Method method = FindMethod(self, name);
  CHECK(method != nullptr);
  return method(interpreter, self, arguments);
}

}  // namespace phalanx::jinja
