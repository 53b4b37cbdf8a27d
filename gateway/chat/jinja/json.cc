#include "gateway/chat/jinja/json.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/status.h"
#include "gateway/chat/jinja/unicode.h"
#include "gateway/chat/jinja/value_text.h"
#include "nlohmann/json.hpp"

namespace phalanx::jinja {
namespace {

// Builds a Value from nlohmann's events. Not through nlohmann's own document,
// which forgets how a number was written and has no bound on depth.
class ValueBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Put(Value()); }
  bool boolean(bool value) override { return Put(Value::Bool(value)); }
  bool number_integer(number_integer_t value) override {
    return Put(Value::Int(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Put(Value::Int(value));
  }
  // Also integers beyond 64 bits, told apart by how they are written.
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") != std::string::npos) {
      return Put(Value::Float(value));
    }
    const bool negative = text[0] == '-';
    Integer integer = 0;
    for (size_t i = negative ? 1 : 0; i < text.size(); ++i) {
      const int digit = negative ? '0' - text[i] : text[i] - '0';
      if (__builtin_mul_overflow(integer, Integer{10}, &integer) ||
          __builtin_add_overflow(integer, Integer{digit}, &integer)) {
        return Fail("an integer has more than 128 bits");
      }
    }
    return Put(Value::Int(integer));
  }
  bool string(string_t& text) override {
    return Put(Value::String(std::move(text)));
  }
  bool binary(binary_t&) override { return Fail("binary data"); }
  bool start_object(size_t) override { return Open(/*object=*/true); }
  bool start_array(size_t) override { return Open(/*object=*/false); }
  bool key(string_t& text) override {
    open_.back().key = Value::String(std::move(text));
    return true;
  }
  bool end_object() override {
    return Close(Value::FromMapping(std::move(open_.back().mapping)));
  }
  bool end_array() override {
    return Close(Value::List(std::move(open_.back().items)));
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    return Fail(absl::StrCat("no JSON at byte ", position));
  }

  absl::StatusOr<Value> Result() && {
    if (!status_.ok()) return status_;
    return std::move(result_);
  }

 private:
  struct Container {
    std::vector<Value> items;
    std::shared_ptr<Mapping> mapping;  // Handed to the value it becomes.
    Value key;
  };

  bool Open(bool object) {
    if (open_.size() >= kMaxJsonDepth) {
      return Fail(absl::StrCat("JSON is nested deeper than ", kMaxJsonDepth,
                               " levels"));
    }
    open_.emplace_back();
    if (object) open_.back().mapping = std::make_shared<Mapping>();
    return true;
  }

  bool Close(absl::StatusOr<Value> value) {
    open_.pop_back();
    if (!value.ok()) {
      status_ = std::move(value).status();
      return false;
    }
    return Put(*std::move(value));
  }

  bool Put(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().mapping != nullptr) {
      status_ = open_.back().mapping->Set(std::move(open_.back().key),
                                          std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return status_.ok();
  }

  bool Fail(std::string message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(message);
    return false;
  }

  std::vector<Container> open_;
  Value result_;
  absl::Status status_;
};

class Dumper {
 public:
  Dumper(const JsonStyle& style, size_t max_bytes)
      : style_(style), max_bytes_(max_bytes) {}

  absl::Status Dump(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::kNone:
        return Add("null");
      case Value::Kind::kBool:
        return Add(value.boolean() ? "true" : "false");
      case Value::Kind::kInt:
        return Add(IntegerText(value.integer()));
      case Value::Kind::kFloat:
        return Add(NumberText(value.floating()));
      case Value::Kind::kString:
        return AddString(value.text());
      case Value::Kind::kList:
      case Value::Kind::kTuple:
        return DumpItems(value.sequence().items);
      case Value::Kind::kMapping:
        return DumpEntries(value.mapping());
      default:
        return absl::InvalidArgumentError(absl::StrCat(
            "Object of type ", value.type_name(), " is not JSON serializable"));
    }
  }

  std::string Text() && { return std::move(out_); }

 private:
  static std::string NumberText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FloatText(value);
  }

  absl::Status Add(absl::string_view text) {
    if (text.size() > max_bytes_ || out_.size() > max_bytes_ - text.size()) {
      return TooLong(max_bytes_);
    }
    out_.append(text.data(), text.size());
    return absl::OkStatus();
  }

  absl::Status AddString(absl::string_view text) {
    std::string quoted = "\"";
    for (size_t i = 0; i < text.size();) {
      AppendEscaped(NextCodePoint(text, i), quoted);
    }
    quoted.push_back('"');
    return Add(quoted);
  }

  void AppendEscaped(CodePoint c, std::string& out) const {
    static constexpr absl::string_view kPlain = "\"\\\n\r\t\f\b";
    static constexpr absl::string_view kShort = "\"\\nrtfb";
    const size_t known =
        c < 0x80 ? kPlain.find(static_cast<char>(c)) : absl::string_view::npos;
    if (known != absl::string_view::npos) {
      out.push_back('\\');
      out.push_back(kShort[known]);
    } else if (c < 0x20 || (style_.ensure_ascii && c >= 0x7f && c < 0x10000)) {
      out += absl::StrFormat("\\u%04x", c);
    } else if (style_.ensure_ascii && c >= 0x10000 && c < kInvalid) {
      out += absl::StrFormat("\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                             0xdc00 + ((c - 0x10000) & 0x3ff));
    } else {
      AppendCodePoint(c, out);
    }
  }

  // A new line at the present level, if the style has lines.
  absl::Status NewLine() {
    if (!style_.indent) return absl::OkStatus();
    RETURN_IF_ERROR(Add("\n"));
    for (int i = 0; i < level_; ++i) RETURN_IF_ERROR(Add(*style_.indent));
    return absl::OkStatus();
  }

  absl::Status Separate(bool first) {
    if (!first) RETURN_IF_ERROR(Add(style_.item_separator));
    return NewLine();
  }

  absl::Status DumpItems(const std::vector<Value>& items) {
    if (items.empty()) return Add("[]");
    RETURN_IF_ERROR(Add("["));
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      RETURN_IF_ERROR(Separate(i == 0));
      RETURN_IF_ERROR(Dump(items[i]));
    }
    --level_;
    RETURN_IF_ERROR(NewLine());
    return Add("]");
  }

  static absl::StatusOr<std::string> KeyText(const Value& key) {
    switch (key.kind()) {
      case Value::Kind::kString:
        return key.text();
      case Value::Kind::kNone:
        return "null";
      case Value::Kind::kBool:
        return key.boolean() ? "true" : "false";
      case Value::Kind::kInt:
        return IntegerText(key.integer());
      case Value::Kind::kFloat:
        return NumberText(key.floating());
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("keys must be str, int, float, bool or None, not ",
                         key.type_name()));
    }
  }

  absl::Status DumpEntries(const Mapping& mapping) {
    if (mapping.entries.empty()) return Add("{}");
    std::vector<std::pair<std::string, const Value*>> entries;
    entries.reserve(mapping.entries.size());
    for (const auto& [key, value] : mapping.entries) {
      ASSIGN_OR_RETURN(std::string text, KeyText(key));
      entries.emplace_back(std::move(text), &value);
    }
    if (style_.sort_keys) {
      std::stable_sort(
          entries.begin(), entries.end(),
          [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    RETURN_IF_ERROR(Add("{"));
    ++level_;
    bool first = true;
    for (const auto& [key, value] : entries) {
      RETURN_IF_ERROR(Separate(first));
      first = false;
      RETURN_IF_ERROR(AddString(key));
      RETURN_IF_ERROR(Add(style_.key_separator));
      RETURN_IF_ERROR(Dump(*value));
    }
    --level_;
    RETURN_IF_ERROR(NewLine());
    return Add("}");
  }

  const JsonStyle& style_;
  size_t max_bytes_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

absl::StatusOr<Value> ParseJson(absl::string_view text) {
  ValueBuilder builder;
  nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder);
  return std::move(builder).Result();
}

absl::StatusOr<std::string> DumpJson(const Value& value, const JsonStyle& style,
                                     size_t max_bytes) {
  Dumper dumper(style, max_bytes);
  RETURN_IF_ERROR(dumper.Dump(value));
  return std::move(dumper).Text();
}

}  // namespace phalanx::jinja
