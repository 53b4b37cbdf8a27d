// Filters that go through a collection item by item: map, select and kin.

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/attribute_path.h"
#include "gateway/chat/jinja/filters.h"
#include "gateway/chat/jinja/unicode.h"

namespace phalanx::jinja {
namespace {

using Result = absl::StatusOr<Value>;

absl::Status Invalid(absl::string_view message) {
  return absl::InvalidArgumentError(message);
}

// What stands behind the first `count` positional arguments.
Arguments Rest(const Arguments& arguments, size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<int64_t>(count));
  return rest;
}

absl::StatusOr<std::string> NameArgument(const Arguments& arguments, size_t i) {
  if (!arguments.positional[i].is_string()) {
    return Invalid("a filter or test must be given by its name");
  }
  return arguments.positional[i].text();
}

Result MapAttribute(Interpreter& interpreter, std::vector<Value> items,
                    const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("map", arguments, {"attribute", "default"}, 1));
  ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[0]));
  for (Value& item : items) {
    ASSIGN_OR_RETURN(item, path.Get(interpreter, item));
    if (item.undefined()) item = bound.ValueOr(1, std::move(item));
  }
  return Value::Generator("sync_do_map", std::move(items));
}

// What has no items has none to complain of: None and False as well.
absl::StatusOr<std::vector<Value>> ItemsOf(Interpreter& interpreter,
                                           const Value& value) {
  if (!value.Truthy()) return std::vector<Value>();
  return interpreter.Iterate(value);
}

Result Map(Interpreter& interpreter, const Value& value,
           const Arguments& arguments) {
  ASSIGN_OR_RETURN(std::vector<Value> items, ItemsOf(interpreter, value));
  if (arguments.positional.empty()) {
    return MapAttribute(interpreter, std::move(items), arguments);
  }
  ASSIGN_OR_RETURN(const std::string filter, NameArgument(arguments, 0));
  const Arguments rest = Rest(arguments, 1);
  for (Value& item : items) {
    ASSIGN_OR_RETURN(item, interpreter.Filter(filter, item, rest));
  }
  return Value::Generator("sync_do_map", std::move(items));
}

// Keeps the items whose test holds (kKeep) or does not. With kAttribute the
// first argument names the attribute that is tested.
template <bool kAttribute, bool kKeep>
Result Select(Interpreter& interpreter, const Value& value,
              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOf(interpreter, value));
  AttributePath path;
  size_t used = 0;
  if (kAttribute) {
    if (arguments.positional.empty()) return Invalid("missing attribute name");
    ASSIGN_OR_RETURN(path, AttributePath::Parse(arguments.positional[0]));
    used = 1;
  }
  std::string test;  // Empty: the item itself, as a truth value.
  if (arguments.positional.size() > used) {
    ASSIGN_OR_RETURN(test, NameArgument(arguments, used));
    ++used;
  }
  const Arguments rest = Rest(arguments, used);
  std::vector<Value> kept;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value tested, path.Get(interpreter, item));
    bool holds = tested.Truthy();
    if (!test.empty()) {
      ASSIGN_OR_RETURN(holds, interpreter.Test(test, tested, rest));
    }
    if (holds == kKeep) kept.push_back(item);
  }
  return Value::Generator("select_or_reject", std::move(kept));
}

Result Batch(Interpreter& interpreter, const Value& value,
             const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("batch", arguments, {"linecount", "fill_with"}, 1));
  ASSIGN_OR_RETURN(const int64_t size, bound.IntegerOr(0, 1));
  if (size < 1) return Invalid("batch's size must be at least 1");
  ASSIGN_OR_RETURN(const std::vector<Value> items, interpreter.Iterate(value));
  std::vector<Value> batches;
  for (size_t i = 0; i < items.size();) {
    std::vector<Value> batch;
    while (i < items.size() && static_cast<int64_t>(batch.size()) < size) {
      batch.push_back(items[i++]);
    }
    if (bound.Has(1) && !bound[1].none()) {
      const int64_t missing = size - static_cast<int64_t>(batch.size());
      RETURN_IF_ERROR(interpreter.Charge(missing));
      batch.insert(batch.end(), static_cast<size_t>(missing), bound[1]);
    }
    ASSIGN_OR_RETURN(Value list, Value::List(std::move(batch)));
    batches.push_back(std::move(list));
  }
  return Value::Generator("do_batch", std::move(batches));
}

Result SliceColumns(Interpreter& interpreter, const Value& value,
                    const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("slice", arguments, {"slices", "fill_with"}, 1));
  ASSIGN_OR_RETURN(const int64_t count, bound.IntegerOr(0, 1));
  if (count < 1) return Invalid("slice's count must be at least 1");
  RETURN_IF_ERROR(interpreter.Charge(count));
  ASSIGN_OR_RETURN(const std::vector<Value> items, interpreter.Iterate(value));
  const auto size = static_cast<int64_t>(items.size());
  std::vector<Value> columns;
  size_t next = 0;
  for (int64_t i = 0; i < count; ++i) {
    // The first columns take one more each until the rest is used up.
    const bool longer = i < size % count;
    std::vector<Value> column;
    for (int64_t k = 0; k < size / count + (longer ? 1 : 0); ++k) {
      column.push_back(items[next++]);
    }
    if (!longer && bound.Has(1) && !bound[1].none()) column.push_back(bound[1]);
    ASSIGN_OR_RETURN(Value list, Value::List(std::move(column)));
    columns.push_back(std::move(list));
  }
  return Value::Generator("sync_do_slice", std::move(columns));
}

Result GroupBy(Interpreter& interpreter, const Value& value,
               const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("groupby", arguments,
                           {"attribute", "default", "case_sensitive"}, 1));
  ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[0]));
  const FilterFunction sort = FindFilter("sort");
  ASSIGN_OR_RETURN(const Value sorted,
                   sort(interpreter, value,
                        Arguments{{},
                                  {{"attribute", bound[0]},
                                   {"case_sensitive",
                                    Value::Bool(bound.TruthyOr(2, false))}}}));
  std::vector<std::pair<Value, std::vector<Value>>> groups;
  for (const Value& item : sorted.sequence().items) {
    ASSIGN_OR_RETURN(Value key, path.Get(interpreter, item));
    if (key.undefined()) key = bound.ValueOr(1, std::move(key));
    bool same = false;
    if (!groups.empty()) {
      ASSIGN_OR_RETURN(same, interpreter.Equals(groups.back().first, key));
    }
    if (!same) groups.emplace_back(std::move(key), std::vector<Value>());
    groups.back().second.push_back(item);
  }
  std::vector<Value> pairs;
  for (auto& [key, members] : groups) {
    ASSIGN_OR_RETURN(Value list, Value::List(std::move(members)));
    ASSIGN_OR_RETURN(Value pair, Value::Tuple({key, std::move(list)}));
    pairs.push_back(std::move(pair));
  }
  return Value::List(std::move(pairs));
}

}  // namespace

FilterFunction FindSelectionFilter(absl::string_view name) {
  // Never freed: threads may still render while the process ends.
  static const auto* const kFilters =
      new absl::flat_hash_map<absl::string_view, FilterFunction>{
          {"map", Map},
          {"select", Select<false, true>},
          {"reject", Select<false, false>},
          {"selectattr", Select<true, true>},
          {"rejectattr", Select<true, false>},
          {"batch", Batch},
          {"slice", SliceColumns},
          {"groupby", GroupBy},
      };
  const auto place = kFilters->find(name);
  return place == kFilters->end() ? nullptr : place->second;
}

}  // namespace phalanx::jinja
