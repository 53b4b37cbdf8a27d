// Filters that look at a list, mapping or other collection as a whole.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/attribute_path.h"
#include "gateway/chat/jinja/filters.h"
#include "gateway/chat/jinja/text_functions.h"
#include "gateway/chat/jinja/unicode.h"

namespace phalanx::jinja {
namespace {

using Result = absl::StatusOr<Value>;

absl::Status Invalid(absl::string_view message) {
  return absl::InvalidArgumentError(message);
}

Result Length(Interpreter& interpreter, const Value& value,
              const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("length", arguments, {}).status());
  ASSIGN_OR_RETURN(const int64_t length, interpreter.Length(value));
  return Value::Int(length);
}

Result ToList(Interpreter& interpreter, const Value& value,
              const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("list", arguments, {}).status());
  ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Iterate(value));
  return Value::List(std::move(items));
}

Result First(Interpreter& interpreter, const Value& value,
             const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("first", arguments, {}).status());
  if (value.kind() == Value::Kind::kGenerator) {
    // Takes this one and leaves the others.
    Sequence& generator = value.sequence();
    if (generator.taken < generator.items.size()) {
      return generator.items[generator.taken++];
    }
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, interpreter.Iterate(value));
  if (items.empty()) return Value::Undefined("there is no first item");
  return items.front();
}

Result Last(Interpreter& interpreter, const Value& value,
            const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("last", arguments, {}).status());
  if (value.kind() == Value::Kind::kGenerator) {
    return Invalid("'generator' object is not reversible");
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, interpreter.Iterate(value));
  if (items.empty()) return Value::Undefined("there is no last item");
  return items.back();
}

Result Reverse(Interpreter& interpreter, const Value& value,
               const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("reverse", arguments, {}).status());
  if (value.is_string()) {
    RETURN_IF_ERROR(
        interpreter.Charge(static_cast<int64_t>(value.text().size())));
    std::vector<CodePoint> points = Decode(value.text());
    std::reverse(points.begin(), points.end());
    return interpreter.NewText(Encode(points), value.is_markup());
  }
  ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Iterate(value));
  std::reverse(items.begin(), items.end());
  return Value::Generator("reverse", std::move(items));
}

Result JoinItems(Interpreter& interpreter, const Value& value,
                 const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("join", arguments, {"d", "attribute"}));
  ASSIGN_OR_RETURN(const std::string separator,
                   interpreter.Text(bound.ValueOr(0, Value::String(""))));
  ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Iterate(value));
  if (bound.Has(1) && !bound[1].none()) {
    ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[1]));
    for (Value& item : items) {
      ASSIGN_OR_RETURN(item, path.Get(interpreter, item));
    }
  }
  ASSIGN_OR_RETURN(std::string text, Join(interpreter, separator, items,
                                          /*strings_only=*/false));
  return interpreter.NewText(std::move(text));
}

Result Items(Interpreter& interpreter, const Value& value,
             const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("items", arguments, {}).status());
  std::vector<Value> pairs;
  if (value.is_mapping()) {
    for (const auto& [key, item] : value.mapping().entries) {
      RETURN_IF_ERROR(interpreter.Charge(2));
      ASSIGN_OR_RETURN(Value pair, Value::Tuple({key, item}));
      pairs.push_back(std::move(pair));
    }
  } else if (!value.undefined()) {
    return Invalid("can only get item pairs from a mapping");
  }
  return Value::Generator("do_items", std::move(pairs));
}

// Sorts `items` by `keys`, both in place. Stable.
absl::Status SortByKeys(Interpreter& interpreter,
                        const std::vector<Value>& keys, bool reverse,
                        std::vector<Value>& items) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  absl::Status status;
  // After an error all keys are equal, which ends the sort soon.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (!status.ok()) return false;
    const absl::StatusOr<bool> less =
        reverse ? interpreter.LessThan(keys[b], keys[a])
                : interpreter.LessThan(keys[a], keys[b]);
    const absl::Status step = interpreter.Charge(1);
    status = !less.ok() ? less.status() : step;
    return less.ok() && *less;
  });
  RETURN_IF_ERROR(status);
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (size_t i : order) sorted.push_back(std::move(items[i]));
  items = std::move(sorted);
  return absl::OkStatus();
}

// Text without regard to case, unless asked for.
Result CaseKey(Interpreter& interpreter, const Value& value,
               bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  RETURN_IF_ERROR(interpreter.ChargeText(value.text().size()));
  return Value::String(ToLower(value.text()));
}

absl::StatusOr<std::vector<Value>> KeysOf(Interpreter& interpreter,
                                          const std::vector<Value>& items,
                                          const Value& attribute,
                                          bool case_sensitive) {
  ASSIGN_OR_RETURN(const std::vector<AttributePath> paths,
                   AttributePath::ParseList(attribute));
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> parts;
    for (const AttributePath& path : paths) {
      ASSIGN_OR_RETURN(const Value part, path.Get(interpreter, item));
      ASSIGN_OR_RETURN(Value key, CaseKey(interpreter, part, case_sensitive));
      parts.push_back(std::move(key));
    }
    if (parts.size() == 1) {
      keys.push_back(std::move(parts.front()));
    } else {
      ASSIGN_OR_RETURN(Value key, Value::List(std::move(parts)));
      keys.push_back(std::move(key));
    }
  }
  return keys;
}

Result Sort(Interpreter& interpreter, const Value& value,
            const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("sort", arguments,
                           {"reverse", "case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Iterate(value));
  ASSIGN_OR_RETURN(const std::vector<Value> keys,
                   KeysOf(interpreter, items, bound.ValueOr(2, Value()),
                          bound.TruthyOr(1, false)));
  RETURN_IF_ERROR(
      SortByKeys(interpreter, keys, bound.TruthyOr(0, false), items));
  return Value::List(std::move(items));
}

Result DictSort(Interpreter& interpreter, const Value& value,
                const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("dictsort", arguments,
                                        {"case_sensitive", "by", "reverse"}));
  ASSIGN_OR_RETURN(const std::string by, bound.TextOr(1, "key"));
  if (by != "key" && by != "value") {
    return Invalid("dictsort sorts by key or value");
  }
  if (!value.is_mapping()) {
    return Invalid(value.undefined() ? value.undefined_message()
                                     : "dictsort needs a mapping");
  }
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [key, item] : value.mapping().entries) {
    RETURN_IF_ERROR(interpreter.Charge(2));
    ASSIGN_OR_RETURN(Value pair, Value::Tuple({key, item}));
    pairs.push_back(std::move(pair));
    ASSIGN_OR_RETURN(Value sort_key,
                     CaseKey(interpreter, by == "key" ? key : item,
                             bound.TruthyOr(0, false)));
    keys.push_back(std::move(sort_key));
  }
  RETURN_IF_ERROR(
      SortByKeys(interpreter, keys, bound.TruthyOr(2, false), pairs));
  return Value::List(std::move(pairs));
}

Result Unique(Interpreter& interpreter, const Value& value,
              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("unique", arguments,
                                        {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const std::vector<Value> items, interpreter.Iterate(value));
  ASSIGN_OR_RETURN(const std::vector<Value> keys,
                   KeysOf(interpreter, items, bound.ValueOr(1, Value()),
                          bound.TruthyOr(0, false)));
  std::vector<Value> kept;
  absl::flat_hash_set<std::string> seen;
  for (size_t i = 0; i < items.size(); ++i) {
    RETURN_IF_ERROR(interpreter.ChargeKey(keys[i]));
    std::optional<std::string> key = KeyOf(keys[i]);
    if (!key) {
      return Invalid(
          absl::StrCat("unhashable type: '", keys[i].type_name(), "'"));
    }
    if (seen.insert(*std::move(key)).second) kept.push_back(items[i]);
  }
  return Value::Generator("do_unique", std::move(kept));
}

template <bool kLargest>
Result Extreme(Interpreter& interpreter, const Value& value,
               const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("min", arguments, {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const std::vector<Value> items, interpreter.Iterate(value));
  if (items.empty()) {
    return Value::Undefined("no aggregated item, sequence was empty");
  }
  ASSIGN_OR_RETURN(const std::vector<Value> keys,
                   KeysOf(interpreter, items, bound.ValueOr(1, Value()),
                          bound.TruthyOr(0, false)));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool better,
                     kLargest ? interpreter.LessThan(keys[best], keys[i])
                              : interpreter.LessThan(keys[i], keys[best]));
    if (better) best = i;
  }
  return items[best];
}

Result Sum(Interpreter& interpreter, const Value& value,
           const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("sum", arguments, {"attribute", "start"}));
  ASSIGN_OR_RETURN(const std::vector<Value> items, interpreter.Iterate(value));
  ASSIGN_OR_RETURN(const std::vector<Value> parts,
                   KeysOf(interpreter, items, bound.ValueOr(0, Value()),
                          /*case_sensitive=*/true));
  Value sum = bound.ValueOr(1, Value::Int(0));
  if (sum.is_string()) return Invalid("sum cannot sum strings");
  for (const Value& part : parts) {
    ASSIGN_OR_RETURN(sum, interpreter.Arithmetic("+", sum, part));
  }
  return sum;
}

}  // namespace

FilterFunction FindListFilter(absl::string_view name) {
  // Never freed: threads may still render while the process ends.
  static const auto* const kFilters =
      new absl::flat_hash_map<absl::string_view, FilterFunction>{
          {"length", Length},     {"count", Length},  {"list", ToList},
          {"first", First},       {"last", Last},     {"reverse", Reverse},
          {"join", JoinItems},    {"items", Items},   {"sort", Sort},
          {"dictsort", DictSort}, {"unique", Unique}, {"min", Extreme<false>},
          {"max", Extreme<true>}, {"sum", Sum},
      };
  const auto place = kFilters->find(name);
  return place == kFilters->end() ? nullptr : place->second;
}

}  // namespace phalanx::jinja
