#include "gateway/chat/jinja/attribute_path.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status.h"

namespace phalanx::jinja {

absl::StatusOr<AttributePath> AttributePath::Parse(const Value& attribute) {
  AttributePath path;
  if (attribute.none()) return path;
  if (attribute.is_integer()) {
    path.keys_.push_back(attribute);
    return path;
  }
  if (!attribute.is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("an attribute must be a string or an integer, not ",
                     attribute.type_name()));
  }
  for (absl::string_view part : absl::StrSplit(attribute.text(), '.')) {
    int64_t index;
    path.keys_.push_back(absl::SimpleAtoi(part, &index) && part[0] != '-'
                             ? Value::Int(index)
                             : Value::String(std::string(part)));
  }
  return path;
}

absl::StatusOr<std::vector<AttributePath>> AttributePath::ParseList(
    const Value& attribute) {
  std::vector<AttributePath> paths;
  if (!attribute.is_string()) {
    ASSIGN_OR_RETURN(AttributePath path, Parse(attribute));
    paths.push_back(std::move(path));
    return paths;
  }
  for (absl::string_view part : absl::StrSplit(attribute.text(), ',')) {
    ASSIGN_OR_RETURN(AttributePath path,
                     Parse(Value::String(std::string(part))));
    paths.push_back(std::move(path));
  }
  return paths;
}

absl::StatusOr<Value> AttributePath::Get(Interpreter& interpreter,
                                         const Value& item) const {
  RETURN_IF_ERROR(interpreter.Charge(1));
  Value value = item;
  for (const Value& key : keys_) {
    ASSIGN_OR_RETURN(value, interpreter.Item(value, key));
  }
  return value;
}

}  // namespace phalanx::jinja
