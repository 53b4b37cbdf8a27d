#include "gateway/chat/jinja/format.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/format_spec.h"
#include "gateway/chat/jinja/unicode.h"
#include "gateway/chat/jinja/value_text.h"

namespace phalanx::jinja {
namespace {

absl::Status Invalid(absl::string_view message) {
  return absl::InvalidArgumentError(message);
}

absl::StatusOr<std::string> Repr(Interpreter& interpreter, const Value& value) {
  std::string text;
  RETURN_IF_ERROR(AppendRepr(value, interpreter.max_text_bytes(), text));
  return text;
}

// One "format % value". Lives for one call.
class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, absl::string_view format,
                   const Value& value)
      : interpreter_(interpreter), format_(format), value_(value) {}

  absl::StatusOr<std::string> Run() {
    while (position_ < format_.size()) {
      const char c = format_[position_++];
      if (c != '%') {
        out_.push_back(c);
        continue;
      }
      RETURN_IF_ERROR(Field());
      if (out_.size() > interpreter_.max_text_bytes()) {
        return TooLong(interpreter_.max_text_bytes());
      }
    }
    const bool tuple = value_.kind() == Value::Kind::kTuple;
    if (!value_.is_mapping() && !value_.is_list_or_tuple() && used_ == 0) {
      return Invalid("not all arguments converted during string formatting");
    }
    if (tuple && used_ < value_.sequence().items.size()) {
      return Invalid("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  bool At(char c) const {
    return position_ < format_.size() && format_[position_] == c;
  }

  absl::StatusOr<Value> NextValue() {
    if (value_.kind() == Value::Kind::kTuple) {
      if (used_ >= value_.sequence().items.size()) {
        return Invalid("not enough arguments for format string");
      }
      return value_.sequence().items[used_++];
    }
    if (used_++ > 0) return Invalid("not enough arguments for format string");
    return value_;
  }

  // "(key)": the value comes from a mapping.
  absl::StatusOr<std::optional<Value>> Keyed() {
    if (!At('(')) return std::nullopt;
    const size_t end = format_.find(')', position_);
    if (end == absl::string_view::npos) return Invalid("incomplete format key");
    if (!value_.is_mapping()) return Invalid("format requires a mapping");
    const absl::string_view key =
        format_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    const Value* found = value_.mapping().Find(key);
    if (found == nullptr) {
      return Invalid(absl::StrCat("the format's key '", key, "' is missing"));
    }
    return *found;
  }

  absl::Status Flags(FormatSpec& spec) {
    for (; position_ < format_.size(); ++position_) {
      switch (format_[position_]) {
        case '-':
          spec.align = '<';
          continue;
        case '0':
          spec.fill = "0";
          continue;
        case '+':
        case ' ':
          if (spec.sign != '+') spec.sign = format_[position_];
          continue;
        case '#':
          spec.alternate = true;
          continue;
        default:
          return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  // A width or precision: digits, or * for the next value.
  absl::StatusOr<int64_t> Number(int64_t most) {
    if (!At('*')) return ParseFormatNumber(format_, position_, most);
    ++position_;
    ASSIGN_OR_RETURN(const Value value, NextValue());
    ASSIGN_OR_RETURN(const int64_t number, SmallInteger(value));
    if (number < 0 || number > most) {
      return Invalid(absl::StrCat("a number in a format is ", number,
                                  "; must be 0..", most));
    }
    return number;
  }

  absl::Status Field() {
    FormatSpec spec;
    ASSIGN_OR_RETURN(std::optional<Value> value, Keyed());
    RETURN_IF_ERROR(Flags(spec));
    ASSIGN_OR_RETURN(spec.width, Number(kMaxFormatWidth));
    if (At('.')) {
      ++position_;
      ASSIGN_OR_RETURN(spec.precision, Number(kMaxFormatPrecision));
      spec.precision = std::max<int64_t>(spec.precision, 0);
    }
    while (At('l') || At('h') || At('L')) ++position_;
    if (position_ == format_.size()) return Invalid("incomplete format");
    spec.type = format_[position_++];
    if (spec.type == '%') {
      out_.push_back('%');
      return absl::OkStatus();
    }
    if (!value) {
      ASSIGN_OR_RETURN(value, NextValue());
    }
    ASSIGN_OR_RETURN(const std::string text, Format(*value, spec));
    out_ += text;
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Format(const Value& value, FormatSpec spec) {
    static constexpr absl::string_view kText = "sra";
    if (kText.find(spec.type) != absl::string_view::npos) {
      spec.fill = " ";
      if (spec.align == 0) spec.align = '>';
      ASSIGN_OR_RETURN(const std::string text, spec.type == 's'
                                                   ? interpreter_.Text(value)
                                                   : Repr(interpreter_, value));
      return FormatText(text, spec);
    }
    if (spec.type == 'c') {
      std::string text;
      if (value.is_integer() && value.integer() >= 0 &&
          value.integer() <= 0x10ffff) {
        AppendCodePoint(static_cast<CodePoint>(value.integer()), text);
      } else {
        ASSIGN_OR_RETURN(text, interpreter_.Text(value));
        if (CountCodePoints(text) != 1) return Invalid("%c requires a char");
      }
      if (spec.align == 0) spec.align = '>';
      return FormatText(text, spec);
    }
    if (spec.align == '<') spec.fill = " ";
    if (spec.align == 0 && spec.fill == "0") spec.align = '=';
    static constexpr absl::string_view kInteger = "diu";
    if (kInteger.find(spec.type) != absl::string_view::npos &&
        value.kind() == Value::Kind::kFloat) {
      const double number = value.floating();
      if (!(number > -1e38 && number < 1e38)) {
        return Invalid("cannot convert this float to an integer");
      }
      return FormatNumber(Value::Int(static_cast<Integer>(number)), spec);
    }
    return FormatNumber(value, spec);
  }

  Interpreter& interpreter_;
  absl::string_view format_;
  const Value& value_;
  size_t position_ = 0;
  size_t used_ = 0;
  std::string out_;
};

// One format.format(...). Lives for one call.
class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, absl::string_view format,
                 const Arguments& arguments)
      : interpreter_(interpreter), format_(format), arguments_(arguments) {}

  absl::StatusOr<std::string> Run() {
    for (size_t i = 0; i < format_.size();) {
      const char c = format_[i];
      if (c != '{' && c != '}') {
        out_.push_back(c);
        ++i;
      } else if (format_.substr(i + 1, 1) == absl::string_view(&c, 1)) {
        out_.push_back(c);
        i += 2;
      } else if (c == '}') {
        return Invalid("single '}' encountered in format string");
      } else {
        ASSIGN_OR_RETURN(i, Field(i + 1));
      }
      if (out_.size() > interpreter_.max_text_bytes()) {
        return TooLong(interpreter_.max_text_bytes());
      }
    }
    return std::move(out_);
  }

 private:
  // The field whose inside starts at `begin`; returns the place behind it.
  absl::StatusOr<size_t> Field(size_t begin) {
    int open = 1;
    size_t end = begin;
    for (; end < format_.size() && open > 0; ++end) {
      if (format_[end] == '{') ++open;
      if (format_[end] == '}') --open;
    }
    if (open > 0) return Invalid("expected '}' before end of string");
    absl::string_view field = format_.substr(begin, end - 1 - begin);
    std::string spec_text;
    if (const size_t colon = field.find(':');
        colon != absl::string_view::npos) {
      ASSIGN_OR_RETURN(spec_text, Nested(field.substr(colon + 1)));
      field = field.substr(0, colon);
    }
    char conversion = 0;
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field.remove_suffix(2);
    }
    ASSIGN_OR_RETURN(Value value, FieldValue(field));
    ASSIGN_OR_RETURN(const FormatSpec spec, ParseFormatSpec(spec_text));
    ASSIGN_OR_RETURN(const std::string text, Format(value, conversion, spec));
    out_ += text;
    return end;
  }

  // A specification may hold fields of its own, one level deep.
  absl::StatusOr<std::string> Nested(absl::string_view spec) {
    std::string text;
    for (size_t i = 0; i < spec.size(); ++i) {
      if (spec[i] != '{') {
        text.push_back(spec[i]);
        continue;
      }
      const size_t end = spec.find('}', i);
      if (end == absl::string_view::npos) return Invalid("expected '}'");
      ASSIGN_OR_RETURN(const Value value,
                       FieldValue(spec.substr(i + 1, end - i - 1)));
      ASSIGN_OR_RETURN(const std::string part, interpreter_.Text(value));
      text += part;
      i = end;
    }
    return text;
  }

  absl::StatusOr<Value> FieldValue(absl::string_view field) {
    const size_t name_end = std::min(field.find_first_of(".["), field.size());
    ASSIGN_OR_RETURN(Value value, Argument(field.substr(0, name_end)));
    absl::string_view rest = field.substr(name_end);
    while (!rest.empty()) {
      if (rest[0] == '.') {
        const size_t end = std::min(rest.find_first_of(".[", 1), rest.size());
        ASSIGN_OR_RETURN(
            value, interpreter_.Attribute(value, rest.substr(1, end - 1)));
        rest = rest.substr(end);
      } else {
        const size_t end = rest.find(']');
        if (rest[0] != '[' || end == absl::string_view::npos) {
          return Invalid("missing ']' in format string");
        }
        const absl::string_view key = rest.substr(1, end - 1);
        size_t position = 0;
        ASSIGN_OR_RETURN(const int64_t index,
                         ParseFormatNumber(key, position, 1'000'000'000));
        ASSIGN_OR_RETURN(
            value,
            interpreter_.Item(value, !key.empty() && position == key.size()
                                         ? Value::Int(index)
                                         : Value::String(std::string(key))));
        rest = rest.substr(end + 1);
      }
      if (value.undefined()) return Invalid(value.undefined_message());
    }
    return value;
  }

  absl::StatusOr<Value> Argument(absl::string_view name) {
    size_t position = 0;
    ASSIGN_OR_RETURN(int64_t index,
                     ParseFormatNumber(name, position, 1'000'000));
    if (!name.empty() && position < name.size()) {
      for (const auto& [key, value] : arguments_.named) {
        if (key == name) return value;
      }
      return Invalid(absl::StrCat("format has no argument '", name, "'"));
    }
    const bool automatic = name.empty();
    if (numbering_ != 0 && numbering_ != (automatic ? 'a' : 'm')) {
      return Invalid(
          "cannot mix manual and automatic numbering of format fields");
    }
    numbering_ = automatic ? 'a' : 'm';
    if (automatic) index = next_++;
    if (index >= static_cast<int64_t>(arguments_.positional.size())) {
      return Invalid("a format field has no argument");
    }
    return arguments_.positional[static_cast<size_t>(index)];
  }

  absl::StatusOr<std::string> Format(const Value& value, char conversion,
                                     const FormatSpec& spec) {
    if (conversion != 0 && conversion != 's' && conversion != 'r') {
      return Invalid("unknown conversion in a format field");
    }
    const bool number = value.is_number() && conversion == 0 &&
                        value.kind() != Value::Kind::kBool;
    if (number && spec.type != 's') return FormatNumber(value, spec);
    if (spec.type != 0 && spec.type != 's') {
      return FormatNumber(value, spec);  // Says what does not fit.
    }
    ASSIGN_OR_RETURN(const std::string text, conversion == 'r'
                                                 ? Repr(interpreter_, value)
                                                 : interpreter_.Text(value));
    return FormatText(text, spec);
  }

  Interpreter& interpreter_;
  absl::string_view format_;
  const Arguments& arguments_;
  std::string out_;
  int64_t next_ = 0;
  char numbering_ = 0;  // a: automatic, m: manual, 0: not known yet
};

}  // namespace

absl::StatusOr<Value> FormatPercent(Interpreter& interpreter,
                                    const Value& format, const Value& value) {
  RETURN_IF_ERROR(interpreter.ChargeText(format.text().size()));
  ASSIGN_OR_RETURN(std::string text,
                   PercentFormatter(interpreter, format.text(), value).Run());
  return interpreter.NewText(std::move(text), format.is_markup());
}

absl::StatusOr<Value> FormatBraces(Interpreter& interpreter,
                                   const Value& format,
                                   const Arguments& arguments) {
  RETURN_IF_ERROR(interpreter.ChargeText(format.text().size()));
  ASSIGN_OR_RETURN(std::string text,
                   BraceFormatter(interpreter, format.text(), arguments).Run());
  return interpreter.NewText(std::move(text), format.is_markup());
}

}  // namespace phalanx::jinja
