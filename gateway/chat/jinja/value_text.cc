#include "gateway/chat/jinja/value_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "gateway/chat/jinja/unicode.h"

namespace phalanx::jinja {

absl::Status TooLong(size_t max_bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat("a text grows beyond ", max_bytes, " bytes"));
}

std::string IntegerText(Integer value) {
  if (value == 0) return "0";
  std::string digits;
  const bool negative = value < 0;
  for (; value != 0; value /= 10) {
    const int digit = static_cast<int>(value % 10);
    digits.push_back(static_cast<char>('0' + (negative ? -digit : digit)));
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Python writes an exponent below 1e-4 and from 1e16 on.
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char buffer[64];
  const std::to_chars_result end = std::to_chars(
      buffer, buffer + sizeof(buffer), value,
      plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string QuotedText(absl::string_view text) {
  const bool doubled = text.find('\'') != absl::string_view::npos &&
                       text.find('"') == absl::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = NextCodePoint(text, i);
    if (c == static_cast<CodePoint>(quote) || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c) || c >= kInvalid) {
      AppendCodePoint(c, out);
    } else if (c < 0x100) {
      out += absl::StrFormat("\\x%02x", c);
    } else if (c < 0x10000) {
      out += absl::StrFormat("\\u%04x", c);
    } else {
      out += absl::StrFormat("\\U%08x", c);
    }
  }
  out.push_back(quote);
  return out;
}

std::string EscapeHtml(absl::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

namespace {

// Namespaces may hold each other in a circle.
constexpr int kMaxPrintDepth = 2 * kMaxValueDepth;

class Printer {
 public:
  Printer(size_t max_bytes, std::string& out)
      : max_bytes_(max_bytes), out_(out) {}

  absl::Status Text(const Value& value) {
    if (value.undefined()) return absl::OkStatus();
    if (value.is_string()) return Add(value.text());
    return Repr(value);
  }

  absl::Status Repr(const Value& value) {
    if (++depth_ > kMaxPrintDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("a value to print is nested deeper than ",
                       kMaxPrintDepth, " levels"));
    }
    RETURN_IF_ERROR(ReprOf(value));
    --depth_;
    return absl::OkStatus();
  }

 private:
  absl::Status ReprOf(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::kUndefined:
        return Add("Undefined");
      case Value::Kind::kNone:
        return Add("None");
      case Value::Kind::kBool:
        return Add(value.boolean() ? "True" : "False");
      case Value::Kind::kInt:
        return Add(IntegerText(value.integer()));
      case Value::Kind::kFloat:
        return Add(FloatText(value.floating()));
      case Value::Kind::kString:
        if (value.is_markup()) {
          return Add(absl::StrCat("Markup(", QuotedText(value.text()), ")"));
        }
        return Add(QuotedText(value.text()));
      case Value::Kind::kBytes:
        return Add(absl::StrCat("b", QuotedText(value.text())));
      case Value::Kind::kList:
        return Items("[", value.sequence().items, "]");
      case Value::Kind::kTuple:
        return Items("(", value.sequence().items,
                     value.sequence().items.size() == 1 ? ",)" : ")");
      case Value::Kind::kView:
        return Items(value.sequence().label + "([", value.sequence().items,
                     "])");
      case Value::Kind::kGenerator:
        return Add(
            absl::StrCat("<generator object ", value.sequence().label, ">"));
      case Value::Kind::kRange:
        return AddRange(value.range());
      case Value::Kind::kMapping:
        return Entries("{", value.mapping(), "}");
      case Value::Kind::kNamespace:
        return Entries("<Namespace {", value.space().attributes, "}>");
      case Value::Kind::kCallable:
        return Add(absl::StrCat(value.callable().what == Callable::What::kMacro
                                    ? "<Macro '"
                                    : "<function '",
                                value.callable().name, "'>"));
      case Value::Kind::kLoop:
        return Add("<LoopContext>");
    }
    return absl::OkStatus();
  }

  absl::Status Add(absl::string_view text) {
    if (text.size() > max_bytes_ || out_.size() > max_bytes_ - text.size()) {
      return TooLong(max_bytes_);
    }
    out_.append(text.data(), text.size());
    return absl::OkStatus();
  }

  absl::Status AddRange(const Range& range) {
    return Add(range.step == 1
                   ? absl::StrCat("range(", range.start, ", ", range.stop, ")")
                   : absl::StrCat("range(", range.start, ", ", range.stop, ", ",
                                  range.step, ")"));
  }

  absl::Status Items(absl::string_view open, const std::vector<Value>& items,
                     absl::string_view close) {
    RETURN_IF_ERROR(Add(open));
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) RETURN_IF_ERROR(Add(", "));
      RETURN_IF_ERROR(Repr(items[i]));
    }
    return Add(close);
  }

  absl::Status Entries(absl::string_view open, const Mapping& mapping,
                       absl::string_view close) {
    RETURN_IF_ERROR(Add(open));
    bool first = true;
    for (const auto& [key, value] : mapping.entries) {
      if (!first) RETURN_IF_ERROR(Add(", "));
      first = false;
      RETURN_IF_ERROR(Repr(key));
      RETURN_IF_ERROR(Add(": "));
      RETURN_IF_ERROR(Repr(value));
    }
    return Add(close);
  }

  size_t max_bytes_;
  std::string& out_;
  int depth_ = 0;
};

}  // namespace

absl::Status AppendText(const Value& value, size_t max_bytes,
                        std::string& out) {
  return Printer(max_bytes, out).Text(value);
}

absl::Status AppendRepr(const Value& value, size_t max_bytes,
                        std::string& out) {
  return Printer(max_bytes, out).Repr(value);
}

}  // namespace phalanx::jinja
