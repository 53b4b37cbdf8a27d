// The methods of strings.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
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

// A part of `self`, with its markup.
Result Part(Interpreter& interpreter, const Value& self,
            absl::string_view text) {
  return interpreter.NewText(std::string(text), self.is_markup());
}

Result Strip(Interpreter& interpreter, const Value& self,
             const Arguments& arguments, bool left, bool right) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("strip", arguments, {"chars"}));
  absl::string_view text = self.text();
  if (bound.Has(0) && !bound[0].none()) {
    ASSIGN_OR_RETURN(const std::string set, bound.TextOr(0, ""));
    RETURN_IF_ERROR(interpreter.Charge(
        static_cast<int64_t>(text.size() / 32 * (1 + set.size()))));
    return Part(interpreter, self, StripSet(text, set, left, right));
  }
  if (left) text = StripLeft(text);
  if (right) text = StripRight(text);
  return Part(interpreter, self, text);
}

Result StripBoth(Interpreter& i, const Value& self, const Arguments& a) {
  return Strip(i, self, a, true, true);
}
Result LeftStrip(Interpreter& i, const Value& self, const Arguments& a) {
  return Strip(i, self, a, true, false);
}
Result RightStrip(Interpreter& i, const Value& self, const Arguments& a) {
  return Strip(i, self, a, false, true);
}

// Words between runs of whitespace; what is left over after `most` cuts keeps
// the blanks of its far end.
std::vector<absl::string_view> SplitBlanks(absl::string_view text, int64_t most,
                                           bool from_right) {
  std::vector<absl::string_view> words;
  size_t start = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const size_t place = i;
    const bool space = IsSpace(NextCodePoint(text, i));
    if (in_word && space) words.push_back(text.substr(start, place - start));
    if (!in_word && !space) start = place;
    in_word = !space;
  }
  if (in_word) words.push_back(text.substr(start));
  if (most < 0 || static_cast<int64_t>(words.size()) <= most) return words;
  if (from_right) {
    const size_t rest = words.size() - static_cast<size_t>(most);
    const size_t end = words[rest - 1].end() - text.begin();
    words.erase(words.begin(), words.begin() + static_cast<int64_t>(rest));
    words.insert(words.begin(), text.substr(0, end));
  } else {
    const size_t begin =
        words[static_cast<size_t>(most)].begin() - text.begin();
    words.resize(static_cast<size_t>(most));
    words.push_back(text.substr(begin));
  }
  return words;
}

std::vector<absl::string_view> SplitAt(absl::string_view text,
                                       absl::string_view separator,
                                       int64_t most, bool from_right) {
  std::vector<absl::string_view> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t found =
        from_right ? text.rfind(separator) : text.find(separator);
    if (found == absl::string_view::npos) break;
    const absl::string_view before = text.substr(0, found);
    const absl::string_view after = text.substr(found + separator.size());
    parts.push_back(from_right ? after : before);
    text = from_right ? before : after;
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Result SplitText(Interpreter& interpreter, const Value& self,
                 const Arguments& arguments, bool from_right) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("split", arguments, {"sep", "maxsplit"}));
  ASSIGN_OR_RETURN(const std::string separator, bound.TextOr(0, ""));
  ASSIGN_OR_RETURN(const int64_t most, bound.IntegerOr(1, -1));
  const bool blanks = !bound.Has(0) || bound[0].none();
  if (!blanks && separator.empty()) return Invalid("empty separator");
  RETURN_IF_ERROR(interpreter.ChargeText(self.text().size()));
  const std::vector<absl::string_view> parts =
      blanks ? SplitBlanks(self.text(), most, from_right)
             : SplitAt(self.text(), separator, most, from_right);
  RETURN_IF_ERROR(interpreter.Charge(static_cast<int64_t>(parts.size())));
  std::vector<Value> items;
  for (absl::string_view part : parts) {
    ASSIGN_OR_RETURN(Value item, Part(interpreter, self, part));
    items.push_back(std::move(item));
  }
  return Value::List(std::move(items));
}

Result Split(Interpreter& i, const Value& self, const Arguments& a) {
  return SplitText(i, self, a, false);
}
Result RightSplit(Interpreter& i, const Value& self, const Arguments& a) {
  return SplitText(i, self, a, true);
}

Result PartitionText(Interpreter& interpreter, const Value& self,
                     const Arguments& arguments, bool from_right) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("partition", arguments, {"sep"}, 1));
  ASSIGN_OR_RETURN(const std::string separator, bound.TextOr(0, ""));
  if (separator.empty()) return Invalid("empty separator");
  RETURN_IF_ERROR(interpreter.ChargeText(self.text().size()));
  const absl::string_view text = self.text();
  const size_t found =
      from_right ? text.rfind(separator) : text.find(separator);
  absl::string_view parts[3] = {text, "", ""};
  if (found != absl::string_view::npos) {
    parts[0] = text.substr(0, found);
    parts[1] = separator;
    parts[2] = text.substr(found + separator.size());
  } else if (from_right) {
    std::swap(parts[0], parts[2]);
  }
  std::vector<Value> items;
  for (absl::string_view part : parts) {
    ASSIGN_OR_RETURN(Value item, Part(interpreter, self, part));
    items.push_back(std::move(item));
  }
  return Value::Tuple(std::move(items));
}

Result Partition(Interpreter& i, const Value& self, const Arguments& a) {
  return PartitionText(i, self, a, false);
}
Result RightPartition(Interpreter& i, const Value& self, const Arguments& a) {
  return PartitionText(i, self, a, true);
}

// What a search with optional start and end (in code points) looks at.
struct Window {
  absl::string_view text;
  int64_t start = 0;  // Code points before it.
  bool valid = true;  // False if it starts behind the end.
};

absl::StatusOr<Window> TakeWindow(absl::string_view text,
                                  const BoundArguments& bound) {
  Window window{text, 0, true};
  if (!bound.Has(1) && !bound.Has(2)) return window;
  const int64_t length = CountCodePoints(text);
  ASSIGN_OR_RETURN(int64_t start, bound.IntegerOr(1, 0));
  ASSIGN_OR_RETURN(int64_t end, bound.IntegerOr(2, length));
  if (start < 0) start = std::max<int64_t>(start + length, 0);
  if (end < 0) end = std::max<int64_t>(end + length, 0);
  end = std::min(end, length);
  window.valid = start <= end;
  if (!window.valid) return window;
  size_t from = 0;
  for (int64_t i = 0; i < start; ++i) NextCodePoint(text, from);
  size_t to = from;
  for (int64_t i = start; i < end; ++i) NextCodePoint(text, to);
  window.text = text.substr(from, to - from);
  window.start = start;
  return window;
}

Result HasAffix(Interpreter& interpreter, const Value& self,
                const Arguments& arguments, bool prefix) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("startswith", arguments,
                                        {"affix", "start", "end"}, 1));
  if (bound.Has(1) || bound.Has(2)) {
    RETURN_IF_ERROR(interpreter.ChargeText(self.text().size()));
  }
  ASSIGN_OR_RETURN(const Window window, TakeWindow(self.text(), bound));
  std::vector<Value> affixes = {bound[0]};
  if (bound[0].kind() == Value::Kind::kTuple) {
    affixes = bound[0].sequence().items;
  }
  for (const Value& affix : affixes) {
    if (!affix.is_string()) {
      return Invalid(absl::StrCat("startswith() and endswith() need a string ",
                                  "or a tuple of strings, not ",
                                  affix.type_name()));
    }
    RETURN_IF_ERROR(interpreter.ChargeText(affix.text().size()));
    if (window.valid && (prefix ? absl::StartsWith(window.text, affix.text())
                                : absl::EndsWith(window.text, affix.text()))) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

Result StartsWith(Interpreter& i, const Value& self, const Arguments& a) {
  return HasAffix(i, self, a, true);
}
Result EndsWith(Interpreter& i, const Value& self, const Arguments& a) {
  return HasAffix(i, self, a, false);
}

// The place in code points, or -1.
absl::StatusOr<int64_t> FindText(Interpreter& interpreter, const Value& self,
                                 const Arguments& arguments, bool from_right) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("find", arguments, {"sub", "start", "end"}, 1));
  ASSIGN_OR_RETURN(const std::string needle, bound.TextOr(0, ""));
  RETURN_IF_ERROR(interpreter.ChargeText(self.text().size()));
  ASSIGN_OR_RETURN(const Window window, TakeWindow(self.text(), bound));
  if (!window.valid) return -1;
  const size_t found =
      from_right ? window.text.rfind(needle) : window.text.find(needle);
  if (found == absl::string_view::npos) return -1;
  return window.start + CountCodePoints(window.text.substr(0, found));
}

template <bool kFromRight, bool kMustBeThere>
Result Find(Interpreter& i, const Value& self, const Arguments& a) {
  ASSIGN_OR_RETURN(const int64_t place, FindText(i, self, a, kFromRight));
  if (kMustBeThere && place < 0) return Invalid("substring not found");
  return Value::Int(place);
}

Result Count(Interpreter& interpreter, const Value& self,
             const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("count", arguments, {"sub", "start", "end"}, 1));
  ASSIGN_OR_RETURN(const std::string needle, bound.TextOr(0, ""));
  RETURN_IF_ERROR(interpreter.ChargeText(self.text().size()));
  ASSIGN_OR_RETURN(const Window window, TakeWindow(self.text(), bound));
  if (!window.valid) return Value::Int(0);
  if (needle.empty()) return Value::Int(CountCodePoints(window.text) + 1);
  int64_t count = 0;
  for (size_t at = window.text.find(needle); at != absl::string_view::npos;
       at = window.text.find(needle, at + needle.size())) {
    ++count;
  }
  return Value::Int(count);
}

Result ReplaceText(Interpreter& interpreter, const Value& self,
                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("replace", arguments, {"old", "new", "count"}, 2));
  ASSIGN_OR_RETURN(const std::string from, bound.TextOr(0, ""));
  ASSIGN_OR_RETURN(std::string to, bound.TextOr(1, ""));
  ASSIGN_OR_RETURN(const int64_t count, bound.IntegerOr(2, -1));
  if (self.is_markup() && !bound[1].is_markup()) to = EscapeHtml(to);
  ASSIGN_OR_RETURN(std::string text,
                   Replace(interpreter, self.text(), from, to, count));
  return interpreter.NewText(std::move(text), self.is_markup());
}

Result JoinTexts(Interpreter& interpreter, const Value& self,
                 const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("join", arguments, {"iterable"}, 1));
  ASSIGN_OR_RETURN(const std::vector<Value> parts,
                   interpreter.Iterate(bound[0]));
  ASSIGN_OR_RETURN(std::string text, Join(interpreter, self.text(), parts,
                                          /*strings_only=*/true));
  return interpreter.NewText(std::move(text));
}

// A change of case; three times the length at most.
template <std::string (*kChange)(absl::string_view)>
Result ChangeCase(Interpreter& interpreter, const Value& self,
                  const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("upper", arguments, {}).status());
  RETURN_IF_ERROR(interpreter.ChargeText(self.text().size()));
  return interpreter.NewText(kChange(self.text()), self.is_markup());
}

// Do all code points (at least one) hold? Letters without case do not count
// for isupper and islower.
template <bool (*kHolds)(CodePoint), bool kCasedOnly>
Result All(Interpreter& interpreter, const Value& self,
           const Arguments& arguments) {
  RETURN_IF_ERROR(BoundArguments::Bind("isdigit", arguments, {}).status());
  RETURN_IF_ERROR(interpreter.ChargeText(self.text().size()));
  bool any = false;
  const absl::string_view text = self.text();
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = NextCodePoint(text, i);
    if (kCasedOnly && !IsUpper(c) && !IsLower(c)) continue;
    if (!kHolds(c)) return Value::Bool(false);
    any = true;
  }
  return Value::Bool(any);
}

bool IsAlphanumeric(CodePoint c) { return IsAlphabetic(c) || IsDigit(c); }

template <char kAlign>
Result FillText(Interpreter& interpreter, const Value& self,
                const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("center", arguments, {"width", "fillchar"}, 1));
  ASSIGN_OR_RETURN(const int64_t width, bound.IntegerOr(0, 0));
  ASSIGN_OR_RETURN(const std::string fill, bound.TextOr(1, " "));
  ASSIGN_OR_RETURN(std::string text,
                   Fill(interpreter, self.text(), width, fill, kAlign));
  return interpreter.NewText(std::move(text), self.is_markup());
}

Result ZeroFill(Interpreter& interpreter, const Value& self,
                const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("zfill", arguments, {"width"}, 1));
  ASSIGN_OR_RETURN(const int64_t width, bound.IntegerOr(0, 0));
  const absl::string_view text = self.text();
  const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  ASSIGN_OR_RETURN(
      const std::string digits,
      Fill(interpreter, text.substr(sign ? 1 : 0),
           std::max<int64_t>(width, 0) - (sign ? 1 : 0), "0", '>'));
  return interpreter.NewText(absl::StrCat(text.substr(0, sign ? 1 : 0), digits),
                             self.is_markup());
}

Result Lines(Interpreter& interpreter, const Value& self,
             const Arguments& arguments) {
  ASSIGN_OR_RETURN(const BoundArguments bound,
                   BoundArguments::Bind("splitlines", arguments, {"keepends"}));
  RETURN_IF_ERROR(interpreter.ChargeText(self.text().size()));
  std::vector<Value> lines;
  for (absl::string_view line :
       SplitLines(self.text(), bound.TruthyOr(0, false))) {
    RETURN_IF_ERROR(interpreter.Charge(1));
    ASSIGN_OR_RETURN(Value part, Part(interpreter, self, line));
    lines.push_back(std::move(part));
  }
  return Value::List(std::move(lines));
}

template <bool kPrefix>
Result RemoveAffix(Interpreter& interpreter, const Value& self,
                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::Bind("removeprefix", arguments, {"affix"}, 1));
  ASSIGN_OR_RETURN(const std::string affix, bound.TextOr(0, ""));
  absl::string_view text = self.text();
  if (kPrefix && absl::StartsWith(text, affix)) {
    text.remove_prefix(affix.size());
  } else if (!kPrefix && absl::EndsWith(text, affix)) {
    text.remove_suffix(affix.size());
  }
  return Part(interpreter, self, text);
}

Result EncodeText(Interpreter& interpreter, const Value& self,
                  const Arguments& arguments) {
  RETURN_IF_ERROR(
      BoundArguments::Bind("encode", arguments, {"encoding", "errors"})
          .status());
  RETURN_IF_ERROR(interpreter.ChargeText(self.text().size()));
  return Value::Bytes(self.text());
}

}  // namespace

Method FindStringMethod(absl::string_view name) {
  // Never freed: threads may still render while the process ends.
  static const auto* const kMethods =
      new absl::flat_hash_map<absl::string_view, Method>{
          {"strip", StripBoth},
          {"lstrip", LeftStrip},
          {"rstrip", RightStrip},
          {"split", Split},
          {"rsplit", RightSplit},
          {"partition", Partition},
          {"rpartition", RightPartition},
          {"startswith", StartsWith},
          {"endswith", EndsWith},
          {"find", Find<false, false>},
          {"rfind", Find<true, false>},
          {"index", Find<false, true>},
          {"rindex", Find<true, true>},
          {"count", Count},
          {"replace", ReplaceText},
          {"join", JoinTexts},
          {"format", FormatBraces},
          {"upper", ChangeCase<ToUpper>},
          {"lower", ChangeCase<ToLower>},
          {"casefold", ChangeCase<ToLower>},
          {"title", ChangeCase<ToTitle>},
          {"capitalize", ChangeCase<Capitalize>},
          {"swapcase", ChangeCase<SwapCase>},
          {"isdigit", All<IsDigit, false>},
          {"isdecimal", All<IsDigit, false>},
          {"isnumeric", All<IsDigit, false>},
          {"isalpha", All<IsAlphabetic, false>},
          {"isalnum", All<IsAlphanumeric, false>},
          {"isspace", All<IsSpace, false>},
          {"isupper", All<IsUpper, true>},
          {"islower", All<IsLower, true>},
          {"center", FillText<'^'>},
          {"ljust", FillText<'<'>},
          {"rjust", FillText<'>'>},
          {"zfill", ZeroFill},
          {"splitlines", Lines},
          {"removeprefix", RemoveAffix<true>},
          {"removesuffix", RemoveAffix<false>},
          {"encode", EncodeText},
      };
  const auto place = kMethods->find(name);
  return place == kMethods->end() ? nullptr : place->second;
}

}  // namespace phalanx::jinja
