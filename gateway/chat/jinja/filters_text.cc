// Filters that make text of text.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/status.h"
#include "gateway/chat/jinja/filters.h"
#include "gateway/chat/jinja/format.h"
#include "gateway/chat/jinja/methods.h"
#include "gateway/chat/jinja/text_functions.h"
#include "gateway/chat/jinja/unicode.h"
#include "gateway/chat/jinja/value_text.h"

namespace phalanx::jinja {
namespace {

using Result = absl::StatusOr<Value>;

absl::Status Invalid(absl::string_view message) {
  return absl::InvalidArgumentError(message);
}

// The value as a string value; markup stays markup.
Result Soft(Interpreter& interpreter, const Value& value) {
  if (value.is_string()) return value;
  ASSIGN_OR_RETURN(std::string text, interpreter.Text(value));
  return Value::String(std::move(text));
}

Result StringMethod(Interpreter& interpreter, absl::string_view method,
                    const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Value text, Soft(interpreter, value));
  return CallMethod(interpreter, text, method, arguments);
}

Result Trim(Interpreter& i, const Value& value, const Arguments& a) {
  return StringMethod(i, "strip", value, a);
}
Result Upper(Interpreter& i, const Value& value, const Arguments& a) {
  return StringMethod(i, "upper", value, a);
}
Result Lower(Interpreter& i, const Value& value, const Arguments& a) {
  return StringMethod(i, "lower", value, a);
}
Result CapitalizeText(Interpreter& i, const Value& value, const Arguments& a) {
  return StringMethod(i, "capitalize", value, a);
}

Result Center(Interpreter& i, const Value& value, const Arguments& a) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("center", a, {"width"}));
  return StringMethod(i, "center", value,
                      Arguments{{bound.ValueOr(0, Value::Int(80))}, {}});
}

Result ReplaceText(Interpreter& interpreter, const Value& value,
                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("replace", arguments, {"old", "new", "count"}, 2));
  Arguments texts;
  for (size_t i = 0; i < 2; ++i) {
    ASSIGN_OR_RETURN(Value text, Soft(interpreter, bound[i]));
    texts.positional.push_back(std::move(text));
  }
  if (bound.Has(2) && !bound[2].none()) texts.positional.push_back(bound[2]);
  return StringMethod(interpreter, "replace", value, texts);
}

// Every word starts with a capital; words are cut at blanks, -, (, {, [, <.
Result Title(Interpreter& interpreter, const Value& value,
             const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("title", arguments, {}).status());
  ASSIGN_OR_RETURN(const std::string text, interpreter.Text(value));
  static constexpr absl::string_view kMarks = "-({[<";
  std::string out;
  size_t start = 0;  // Of the word, with one mark before it.
  for (size_t i = 0; i <= text.size();) {
    size_t next = i;
    const CodePoint c =
        i < text.size() ? NextCodePoint(text, next) : CodePoint{' '};
    const bool mark =
        IsSpace(c) || (c < 0x80 && kMarks.find(static_cast<char>(c)) !=
                                       absl::string_view::npos);
    if (mark) {
      out += Capitalize(absl::string_view(text).substr(start, i - start));
      out += text.substr(i, next - i);
      start = next;
    }
    i = std::max(next, i + 1);
  }
  return interpreter.NewText(std::move(out));
}

Result ToString(Interpreter& interpreter, const Value& value,
                const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("string", arguments, {}).status());
  return Soft(interpreter, value);
}

Result Safe(Interpreter& interpreter, const Value& value,
            const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("safe", arguments, {}).status());
  ASSIGN_OR_RETURN(std::string text, interpreter.Text(value));
  return Value::Markup(std::move(text));
}

Result Escape(Interpreter& interpreter, const Value& value,
              const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("escape", arguments, {}).status());
  if (value.is_markup()) return value;
  ASSIGN_OR_RETURN(const std::string text, interpreter.Text(value));
  return interpreter.NewText(EscapeHtml(text), /*markup=*/true);
}

Result ForceEscape(Interpreter& interpreter, const Value& value,
                   const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("forceescape", arguments, {}).status());
  ASSIGN_OR_RETURN(const std::string text, interpreter.Text(value));
  return interpreter.NewText(EscapeHtml(text), /*markup=*/true);
}

// Tags and comments out, whitespace to single blanks, entities to characters.
Result StripTags(Interpreter& interpreter, const Value& value,
                 const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("striptags", arguments, {}).status());
  ASSIGN_OR_RETURN(const std::string text, interpreter.Text(value));
  std::string plain;
  for (size_t i = 0; i < text.size();) {
    const bool comment = text.compare(i, 4, "<!--") == 0;
    const size_t end = text[i] == '<' ? text.find(comment ? "-->" : ">", i)
                                      : std::string::npos;
    if (end == std::string::npos) {
      plain.push_back(text[i++]);
    } else {
      i = end + (comment ? 3 : 1);
    }
  }
  std::string out;
  bool blank = false;
  for (size_t i = 0; i < plain.size();) {
    const CodePoint c = NextCodePoint(plain, i);
    if (IsSpace(c)) {
      blank = !out.empty();
      continue;
    }
    if (blank) out.push_back(' ');
    blank = false;
    AppendCodePoint(c, out);
  }
  static constexpr std::pair<absl::string_view, absl::string_view> kEntities[] =
      {{"&lt;", "<"},    {"&gt;", ">"},  {"&#34;", "\""},
       {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : kEntities) {
    ASSIGN_OR_RETURN(out, Replace(interpreter, out, entity, character, -1));
  }
  return interpreter.NewText(std::move(out));
}

Result Indent(Interpreter& interpreter, const Value& value,
              const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("indent", arguments, {"width", "first", "blank"}));
  ASSIGN_OR_RETURN(const Value text, Soft(interpreter, value));
  std::string indention;
  if (bound.Has(0) && bound[0].is_string()) {
    indention = bound[0].text();
  } else {
    ASSIGN_OR_RETURN(const int64_t width, bound.IntegerOr(0, 4));
    if (width > static_cast<int64_t>(interpreter.max_text_bytes())) {
      return TooLong(interpreter.max_text_bytes());
    }
    indention =
        std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  RETURN_IF_ERROR(
      interpreter.ChargeText(text.text().size() + indention.size()));
  const bool blank = bound.TruthyOr(2, false);
  const std::string with_newline = text.text() + "\n";
  std::string out = bound.TruthyOr(1, false) ? indention : "";
  bool first = true;
  for (absl::string_view line : SplitLines(with_newline, false)) {
    if (!first) {
      out.push_back('\n');
      if (blank || !line.empty()) out += indention;
    }
    first = false;
    absl::StrAppend(&out, line);
    if (out.size() > interpreter.max_text_bytes()) break;
  }
  return interpreter.NewText(std::move(out), text.is_markup());
}

Result Truncate(Interpreter& interpreter, const Value& value,
                const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("truncate", arguments,
                           {"length", "killwords", "end", "leeway"}));
  ASSIGN_OR_RETURN(const int64_t length, bound.IntegerOr(0, 255));
  ASSIGN_OR_RETURN(const std::string end, bound.TextOr(2, "..."));
  ASSIGN_OR_RETURN(const int64_t leeway, bound.IntegerOr(3, 5));
  const int64_t end_length = CountCodePoints(end);
  if (length < end_length || leeway < 0) {
    return Invalid(absl::StrCat("truncate's length is ", length,
                                "; must be at least ", end_length));
  }
  ASSIGN_OR_RETURN(const std::string text, interpreter.Text(value));
  const int64_t size = CountCodePoints(text);
  if (size - leeway <= length) return value;
  size_t cut = 0;
  for (int64_t i = 0; i < length - end_length; ++i) NextCodePoint(text, cut);
  std::string kept = text.substr(0, cut);
  if (!bound.TruthyOr(1, false)) kept = kept.substr(0, kept.rfind(' '));
  return interpreter.NewText(kept + end);
}

Result WordCount(Interpreter& interpreter, const Value& value,
                 const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("wordcount", arguments, {}).status());
  ASSIGN_OR_RETURN(const std::string text, interpreter.Text(value));
  int64_t count = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const bool word = IsWord(NextCodePoint(text, i));
    if (word && !in_word) ++count;
    in_word = word;
  }
  return Value::Int(count);
}

// One paragraph in lines of at most `width` code points. Long words are cut.
void WrapLine(const std::vector<CodePoint>& points, size_t width,
              absl::string_view newline, std::string& out) {
  size_t start = 0;
  while (points.size() - start > width) {
    // The last blank that leaves a line short enough.
    size_t cut = start + width;
    while (cut > start && !IsSpace(points[cut])) --cut;
    const bool word = cut == start;
    if (word) cut = start + width;
    for (size_t i = start; i < cut; ++i) AppendCodePoint(points[i], out);
    absl::StrAppend(&out, newline);
    start = cut;
    while (!word && start < points.size() && IsSpace(points[start])) ++start;
  }
  for (size_t i = start; i < points.size(); ++i) {
    AppendCodePoint(points[i], out);
  }
}

Result WordWrap(Interpreter& interpreter, const Value& value,
                const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("wordwrap", arguments,
                                        {"width", "break_long_words",
                                         "wrapstring", "break_on_hyphens"}));
  ASSIGN_OR_RETURN(const int64_t width, bound.IntegerOr(0, 79));
  ASSIGN_OR_RETURN(const std::string newline, bound.TextOr(2, "\n"));
  if (width < 1) return Invalid("wordwrap's width must be at least 1");
  ASSIGN_OR_RETURN(const std::string text, interpreter.Text(value));
  // At worst a line end per code point.
  RETURN_IF_ERROR(interpreter.ChargeText(
      text.size() / static_cast<size_t>(width) * (newline.size() + 1)));
  std::string out;
  bool first = true;
  for (absl::string_view line : SplitLines(text, false)) {
    if (!first) out += newline;
    first = false;
    WrapLine(Decode(line), static_cast<size_t>(width), newline, out);
    if (out.size() > interpreter.max_text_bytes()) break;
  }
  return interpreter.NewText(std::move(out));
}

Result UrlEncode(Interpreter& interpreter, const Value& value,
                 const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("urlencode", arguments, {}).status());
  if (value.is_mapping() || value.is_list_or_tuple()) {
    return Invalid("urlencode of a mapping or a list is not supported");
  }
  ASSIGN_OR_RETURN(const std::string text, interpreter.Text(value));
  static constexpr absl::string_view kPlain = "_.-~/";
  std::string out;
  for (char c : text) {
    if (absl::ascii_isalnum(c) || kPlain.find(c) != absl::string_view::npos) {
      out.push_back(c);
    } else {
      absl::StrAppendFormat(&out, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return interpreter.NewText(std::move(out));
}

Result Format(Interpreter& interpreter, const Value& value,
              const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return Invalid("format takes positional or named arguments, not both");
  }
  ASSIGN_OR_RETURN(const Value format, Soft(interpreter, value));
  if (arguments.named.empty()) {
    ASSIGN_OR_RETURN(const Value values, Value::Tuple(arguments.positional));
    return FormatPercent(interpreter, format, values);
  }
  auto mapping = std::make_shared<Mapping>();
  for (const auto& [name, item] : arguments.named) {
    RETURN_IF_ERROR(mapping->Set(Value::String(name), item));
  }
  ASSIGN_OR_RETURN(const Value values, Value::FromMapping(std::move(mapping)));
  return FormatPercent(interpreter, format, values);
}

}  // namespace

FilterFunction FindTextFilter(absl::string_view name) {
  // Never freed: threads may still render while the process ends.
  static const auto* const kFilters =
      new absl::flat_hash_map<absl::string_view, FilterFunction>{
          {"trim", Trim},           {"upper", Upper},
          {"lower", Lower},         {"capitalize", CapitalizeText},
          {"center", Center},       {"replace", ReplaceText},
          {"title", Title},         {"string", ToString},
          {"safe", Safe},           {"e", Escape},
          {"escape", Escape},       {"forceescape", ForceEscape},
          {"striptags", StripTags}, {"indent", Indent},
          {"truncate", Truncate},   {"wordcount", WordCount},
          {"wordwrap", WordWrap},   {"urlencode", UrlEncode},
          {"format", Format},
      };
  const auto place = kFilters->find(name);
  return place == kFilters->end() ? nullptr : place->second;
}

}  // namespace phalanx::jinja
