#include "gateway/tokenizer/json_node.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/tokenizer/utf8.h"

namespace phalanx {

using nlohmann::json;

namespace {

constexpr size_t kMaxShownBytes = 80;
constexpr size_t kMaxShownPathBytes = 160;

}  // namespace

std::string Quoted(const std::string& text) {
  const std::string shown =
      json(text.substr(0, kMaxShownBytes))
          .dump(-1, ' ', false, json::error_handler_t::ignore);
  return text.size() > kMaxShownBytes ? absl::StrCat(shown, "...") : shown;
}

absl::StatusOr<json> ParseJson(absl::string_view text, const std::string& file,
                               JsonLimits limits) {
  size_t values = 0;
  bool too_deep = false;
  // What is past a limit is read but not kept.
  const auto keep = [&](int depth, json::parse_event_t event, json&) {
    if (depth >= limits.max_depth) too_deep = true;
    if (event == json::parse_event_t::object_start ||
        event == json::parse_event_t::array_start ||
        event == json::parse_event_t::value) {
      ++values;
    }
    return values <= limits.max_values && !too_deep;
  };
  try {
    json document = json::parse(text.begin(), text.end(), keep);
    if (too_deep) {
      return absl::DataLossError(absl::StrCat(file, ": nested deeper than ",
                                              limits.max_depth, " levels"));
    }
    if (values > limits.max_values) {
      return absl::DataLossError(absl::StrCat(
          file, ": has ", values, " values; at most ", limits.max_values));
    }
    return document;
  } catch (const json::parse_error& error) {
    return absl::DataLossError(
        absl::StrCat(file, ": not valid JSON at byte ", error.byte));
  } catch (const json::exception& error) {
    // A number that no double can hold.
    return absl::DataLossError(
        absl::StrCat(file, ": not valid JSON, error ", error.id));
  }
}

JsonNode JsonNode::Child(const json& value, std::string path) const {
  JsonNode child(value, *file_);
  child.path_ = std::move(path);
  return child;
}

JsonNode JsonNode::Item(const json::const_iterator& item) const {
  return Child(
      *item, path_.empty() ? item.key() : absl::StrCat(path_, ".", item.key()));
}

JsonNode JsonNode::Named(const std::string& key) const {
  return Item(value_->find(key));
}

JsonNode JsonNode::Element(size_t index) const {
  return Child((*value_)[index], absl::StrCat(path_, "[", index, "]"));
}

absl::StatusOr<JsonNode> JsonNode::Member(const std::string& key) const {
  RETURN_IF_ERROR(IsObject());
  if (!value_->contains(key)) {
    return Broken(absl::StrCat("lacks the key \"", key, "\""));
  }
  return Named(key);
}

bool JsonNode::Has(const std::string& key) const {
  return value_->is_object() && value_->contains(key) &&
         !value_->at(key).is_null();
}

absl::StatusOr<std::string> JsonNode::String() const {
  if (!value_->is_string()) {
    return Broken(absl::StrCat("is ", Shown(), "; must be a string"));
  }
  return value_->get<std::string>();
}

absl::StatusOr<bool> JsonNode::Bool() const {
  if (!value_->is_boolean()) {
    return Broken(absl::StrCat("is ", Shown(), "; must be true or false"));
  }
  return value_->get<bool>();
}

absl::Status JsonNode::IsObject() const {
  if (value_->is_object()) return absl::OkStatus();
  return Broken(absl::StrCat("is ", Shown(), "; must be an object"));
}

absl::Status JsonNode::IsArray() const {
  if (value_->is_array()) return absl::OkStatus();
  return Broken(absl::StrCat("is ", Shown(), "; must be an array"));
}

absl::Status JsonNode::ExpectString(const std::string& key,
                                    absl::string_view wanted) const {
  ASSIGN_OR_RETURN(const JsonNode member, Member(key));
  ASSIGN_OR_RETURN(const std::string value, member.String());
  if (value == wanted) return absl::OkStatus();
  return member.Unsupported(absl::StrCat("is ", member.Shown(), "; only \"",
                                         wanted, "\" is supported"));
}

absl::Status JsonNode::ExpectBool(const std::string& key, bool wanted) const {
  ASSIGN_OR_RETURN(const JsonNode member, Member(key));
  ASSIGN_OR_RETURN(const bool value, member.Bool());
  if (value == wanted) return absl::OkStatus();
  return member.Unsupported(absl::StrCat("is ", member.Shown(), "; only ",
                                         wanted ? "true" : "false",
                                         " is supported"));
}

absl::Status JsonNode::ExpectStringIfPresent(const std::string& key,
                                             absl::string_view wanted) const {
  return Has(key) ? ExpectString(key, wanted) : absl::OkStatus();
}

absl::Status JsonNode::ExpectBoolIfPresent(const std::string& key,
                                           bool wanted) const {
  return Has(key) ? ExpectBool(key, wanted) : absl::OkStatus();
}

std::string JsonNode::Message(absl::string_view text) const {
  absl::string_view path = "the root";
  if (!path_.empty()) path = path_;
  if (path.size() <= kMaxShownPathBytes) {
    return absl::StrCat(*file_, ": ", path, " ", text);
  }
  path = path.substr(0, kMaxShownPathBytes);
  return absl::StrCat(*file_, ": ", path.substr(0, ValidUtf8Size(path)), "... ",
                      text);
}

absl::Status JsonNode::Broken(absl::string_view text) const {
  return absl::DataLossError(Message(text));
}

absl::Status JsonNode::Unsupported(absl::string_view text) const {
  return absl::InvalidArgumentError(Message(text));
}

std::string JsonNode::Shown() const {
  if (value_->is_object()) return "an object";
  if (value_->is_array()) return "an array";
  if (value_->is_string()) {
    return Quoted(value_->get_ref<const std::string&>());
  }
  return value_->dump();
}

}  // namespace phalanx
