#include "gateway/chat/jinja/lexer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/literals.h"
#include "gateway/chat/jinja/unicode.h"

namespace phalanx::jinja {
namespace {

// One kind of newline, and none at the very end.
std::string NormaliseNewlines(absl::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else {
      out.push_back('\n');
      if (source.substr(i + 1, 1) == "\n") ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (position_ < source_.size()) RETURN_IF_ERROR(NextTag());
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  absl::string_view Rest() const { return source_.substr(position_); }

  // Moves on and counts lines.
  void Skip(size_t length) {
    const absl::string_view text = source_.substr(position_, length);
    line_ += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    position_ += text.size();
  }

  void SkipSpace() { Skip(Rest().size() - StripLeft(Rest()).size()); }

  void Add(Token::Kind kind, absl::string_view text) {
    tokens_.push_back(Token{kind, std::string(text), Value(), line_});
  }

  absl::Status Error(absl::string_view message) const {
    return ErrorAtLine(line_, message);
  }

  // Where the next tag starts, from `from` on; npos if there is none.
  size_t FindTag(size_t from) const {
    for (size_t at = source_.find('{', from); at != absl::string_view::npos;
         at = source_.find('{', at + 1)) {
      const absl::string_view mark = source_.substr(at + 1, 1);
      if (mark == "{" || mark == "%" || mark == "#") return at;
    }
    return absl::string_view::npos;
  }

  // The text before a tag at `tag`, as the tag's sign ('-', '+' or none) and
  // lstrip_blocks leave it.
  absl::string_view TextBefore(size_t tag, char sign, bool block) const {
    const absl::string_view text = source_.substr(position_, tag - position_);
    if (sign == '-') return StripRight(text);
    if (sign == '+' || !block) return text;
    const size_t newline = text.rfind('\n');
    if (newline == absl::string_view::npos && !line_starting_) return text;
    const size_t line = newline == absl::string_view::npos ? 0 : newline + 1;
    return StripLeft(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  // Text up to the next tag, then that tag.
  absl::Status NextTag() {
    const size_t tag = FindTag(position_);
    if (tag == absl::string_view::npos) {
      Add(Token::Kind::kText, Rest());
      Skip(Rest().size());
      return absl::OkStatus();
    }
    const char kind = source_[tag + 1];
    char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign != '-' && sign != '+') sign = ' ';
    const absl::string_view text = TextBefore(tag, sign, kind != '{');
    if (!text.empty()) Add(Token::Kind::kText, text);
    Skip(tag - position_ + (sign == ' ' ? 2 : 3));
    if (kind == '#') return Comment();
    if (kind == '%' && SkipRawBegin()) return Raw();
    Add(kind == '{' ? Token::Kind::kPrintBegin : Token::Kind::kBlockBegin, "");
    return Inside(kind == '{' ? "}}" : "%}", kind == '{'
                                                 ? Token::Kind::kPrintEnd
                                                 : Token::Kind::kBlockEnd);
  }

  // Eats the end of a tag with its sign, if it is here: "-%}" and the blanks
  // behind it, "+%}", or "%}" and one newline behind it.
  bool SkipTagEnd(absl::string_view end) {
    const size_t before = position_;
    const bool print = end == "}}";
    const absl::string_view rest = Rest();
    if (absl::StartsWith(rest, "-") && absl::StartsWith(rest.substr(1), end)) {
      Skip(1 + end.size());
      SkipSpace();
    } else if (!print && absl::StartsWith(rest, "+") &&
               absl::StartsWith(rest.substr(1), end)) {
      Skip(1 + end.size());
    } else if (absl::StartsWith(rest, end)) {
      Skip(end.size());
      if (!print && absl::StartsWith(Rest(), "\n")) Skip(1);
    } else {
      return false;
    }
    line_starting_ = source_[position_ - 1] == '\n' && position_ > before;
    return true;
  }

  absl::Status Comment() {
    const size_t end = source_.find("#}", position_);
    if (end == absl::string_view::npos) {
      return Error("a comment is not closed");
    }
    // The sign belongs to the end; in {#-#} there is but one.
    const bool sign =
        end > position_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    Skip(end - position_ - (sign ? 1 : 0));
    SkipTagEnd("#}");
    return absl::OkStatus();
  }

  // {% raw %}: eats the rest of the tag, if this is one.
  bool SkipRawBegin() {
    absl::string_view rest = StripLeft(Rest());
    if (!absl::StartsWith(rest, "raw")) return false;
    rest = StripLeft(rest.substr(3));
    const bool minus = absl::StartsWith(rest, "-%}");
    if (!minus && !absl::StartsWith(rest, "%}")) return false;
    Skip(Rest().size() - rest.size() + (minus ? 3 : 2));
    if (minus) SkipSpace();
    line_starting_ = source_[position_ - 1] == '\n';
    return true;
  }

  // Everything up to {% endraw %} is text.
  absl::Status Raw() {
    for (size_t tag = source_.find("{%", position_);
         tag != absl::string_view::npos; tag = source_.find("{%", tag + 2)) {
      absl::string_view rest = source_.substr(tag + 2);
      const char sign = rest.empty() ? ' ' : rest[0];
      if (sign == '-' || sign == '+') rest.remove_prefix(1);
      rest = StripLeft(rest);
      if (!absl::StartsWith(rest, "endraw")) continue;
      rest = StripLeft(rest.substr(6));
      if (!absl::StartsWith(rest, "%}") && !absl::StartsWith(rest, "-%}") &&
          !absl::StartsWith(rest, "+%}")) {
        continue;
      }
      const absl::string_view text = TextBefore(tag, sign, /*block=*/true);
      if (!text.empty()) Add(Token::Kind::kText, text);
      Skip(Rest().size() - rest.size());
      SkipTagEnd("%}");
      return absl::OkStatus();
    }
    return Error("a raw block is not closed");
  }

  // The tokens of one tag, up to and with its end.
  absl::Status Inside(absl::string_view end, Token::Kind end_kind) {
    std::string open;  // Brackets that wait for their partner.
    while (true) {
      SkipSpace();
      if (position_ == source_.size()) {
        return Error("unexpected end of template inside a tag");
      }
      if (open.empty()) {
        const int line = line_;
        if (SkipTagEnd(end)) {
          Add(end_kind, "");
          tokens_.back().line = line;
          return absl::OkStatus();
        }
      }
      RETURN_IF_ERROR(NextToken(open));
    }
  }

  absl::Status NextToken(std::string& open) {
    const char c = source_[position_];
    if (c == '\'' || c == '"') return String(c);
    if (const size_t length = NumberLength(Rest()); length > 0) {
      const absl::StatusOr<Value> number =
          ParseNumber(source_.substr(position_, length));
      if (!number.ok()) return Error(number.status().message());
      Add(Token::Kind::kNumber, source_.substr(position_, length));
      tokens_.back().number = *number;
      Skip(length);
      return absl::OkStatus();
    }
    size_t end = position_;
    for (size_t next = end; next < source_.size(); end = next) {
      if (!IsWord(NextCodePoint(source_, next))) break;
    }
    if (end > position_) {
      Add(Token::Kind::kName, source_.substr(position_, end - position_));
      Skip(end - position_);
      return absl::OkStatus();
    }
    return Operator(open);
  }

  absl::Status String(char quote) {
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == '\\' ? 2 : 1;
    }
    if (end >= source_.size()) return Error("a string is not closed");
    absl::StatusOr<std::string> text =
        Unescape(source_.substr(position_ + 1, end - position_ - 1));
    if (!text.ok()) return Error(text.status().message());
    Add(Token::Kind::kString, *text);
    Skip(end + 1 - position_);
    return absl::OkStatus();
  }

  absl::Status Operator(std::string& open) {
    static constexpr absl::string_view kOperators[] = {
        "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
        ">",  "=",  ".",  ",",  ":",  "|",  "(", ")", "[", "]", "{", "}"};
    for (absl::string_view text : kOperators) {
      if (!absl::StartsWith(Rest(), text)) continue;
      const size_t opening = absl::string_view("([{").find(text[0]);
      const size_t closing = absl::string_view(")]}").find(text[0]);
      if (opening != absl::string_view::npos) open.push_back(")]}"[opening]);
      if (closing != absl::string_view::npos) {
        if (open.empty() || open.back() != text[0]) {
          return Error(absl::StrCat("unexpected '", text, "'"));
        }
        open.pop_back();
      }
      Add(Token::Kind::kOperator, text);
      Skip(text.size());
      return absl::OkStatus();
    }
    return Error(
        absl::StrCat("unexpected character at '", Rest().substr(0, 1), "'"));
  }

  absl::string_view source_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // Nothing but trimmed text since a newline.
  std::vector<Token> tokens_;
};

}  // namespace

absl::Status ErrorAtLine(int line, absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat("template line ", line, ": ", message));
}

absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view source) {
  const std::string text = NormaliseNewlines(source);
  return Lexer(text).Run();
}

}  // namespace phalanx::jinja
