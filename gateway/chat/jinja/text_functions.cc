#include "gateway/chat/jinja/text_functions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/unicode.h"
#include "gateway/chat/jinja/value_text.h"

namespace phalanx::jinja {

absl::string_view StripSet(absl::string_view text, absl::string_view set,
                           bool left, bool right) {
  const std::vector<CodePoint> points = Decode(set);
  const auto holds = [&](CodePoint c) {
    return std::find(points.begin(), points.end(), c) != points.end();
  };
  while (left && !text.empty()) {
    size_t next = 0;
    if (!holds(NextCodePoint(text, next))) break;
    text.remove_prefix(next);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 &&
           (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) {
      --begin;
    }
    size_t next = begin;
    if (!holds(NextCodePoint(text, next)) || next != text.size()) break;
    text = text.substr(0, begin);
  }
  return text;
}

absl::StatusOr<std::string> Replace(Interpreter& interpreter,
                                    absl::string_view text,
                                    absl::string_view from,
                                    absl::string_view to, int64_t count) {
  RETURN_IF_ERROR(interpreter.ChargeText(text.size()));
  std::string out;
  size_t position = 0;
  while (count != 0) {
    const size_t found = text.find(from, position);
    if (found == absl::string_view::npos) break;
    out.append(text.data() + position, found - position);
    out.append(to.data(), to.size());
    position = found + from.size();
    if (count > 0) --count;
    if (out.size() > interpreter.max_text_bytes()) break;
    if (from.empty()) {
      if (position == text.size()) break;
      const size_t start = position;
      NextCodePoint(text, position);
      out.append(text.data() + start, position - start);
    }
  }
  out.append(text.data() + position, text.size() - position);
  RETURN_IF_ERROR(interpreter.ChargeText(out.size()));
  return out;
}

absl::StatusOr<std::string> Join(Interpreter& interpreter,
                                 absl::string_view separator,
                                 const std::vector<Value>& parts,
                                 bool strings_only) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) absl::StrAppend(&out, separator);
    if (strings_only && !parts[i].is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence item ", i, ": expected str instance, ",
                       parts[i].type_name(), " found"));
    }
    if (out.size() > interpreter.max_text_bytes()) break;
    RETURN_IF_ERROR(AppendText(parts[i], interpreter.max_text_bytes(), out));
  }
  RETURN_IF_ERROR(interpreter.ChargeText(out.size()));
  return out;
}

std::vector<absl::string_view> SplitLines(absl::string_view text,
                                          bool keep_ends) {
  std::vector<absl::string_view> lines;
  size_t start = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t end = i;
    const CodePoint c = NextCodePoint(text, i);
    if (!IsLineEnd(c)) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(start, (keep_ends ? i : end) - start));
    start = i;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

absl::StatusOr<std::string> Fill(Interpreter& interpreter,
                                 absl::string_view text, int64_t width,
                                 absl::string_view fill, char align) {
  if (CountCodePoints(fill) != 1) {
    return absl::InvalidArgumentError(
        "the fill character must be exactly one character long");
  }
  const int64_t missing = width - CountCodePoints(text);
  if (missing <= 0) return std::string(text);
  if (missing > static_cast<int64_t>(interpreter.max_text_bytes())) {
    return TooLong(interpreter.max_text_bytes());
  }
  RETURN_IF_ERROR(interpreter.ChargeText(
      text.size() + static_cast<size_t>(missing) * fill.size()));
  // Python gives the odd blank of a centred text to the left if the width is
  // odd as well.
  const int64_t left = align == '<'   ? 0
                       : align == '>' ? missing
                                      : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) absl::StrAppend(&out, fill);
  absl::StrAppend(&out, text);
  for (int64_t i = left; i < missing; ++i) absl::StrAppend(&out, fill);
  return out;
}

}  // namespace phalanx::jinja
