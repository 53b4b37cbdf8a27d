#include "gateway/tokenizer/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "gateway/tokenizer/json_node.h"
#include "gateway/tokenizer/utf8.h"

namespace phalanx {
namespace {

std::string PcreMessage(int code) {
  char text[128];
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text),
                          sizeof(text));
  return text;
}

PCRE2_SPTR Subject(absl::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct Pretokenizer::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;
  // Where the system forbids memory that is both written and run, there is no
  // JIT; the interpreter gives the same matches at a tenth of the speed.
  bool jit = false;

  ~Compiled() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

Pretokenizer::Pretokenizer(std::unique_ptr<Compiled> compiled)
    : compiled_(std::move(compiled)) {}

Pretokenizer::~Pretokenizer() = default;

absl::StatusOr<std::unique_ptr<Pretokenizer>> Pretokenizer::Create(
    const std::string& pattern) {
  if (pattern.empty() || pattern.size() > kMaxSplitPatternBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the split pattern (pre_tokenizer, Regex) has ", pattern.size(),
        " bytes; must be 1..", kMaxSplitPatternBytes));
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_unique<Compiled>();
  // UCP: \s and \d by Unicode property. \C could end a match inside a code
  // point.
  compiled->code =
      pcre2_compile(Subject(pattern), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, nullptr);
  if (compiled->code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the split pattern (pre_tokenizer, Regex) ", Quoted(pattern),
        " is refused at byte ", offset, ": ", PcreMessage(error)));
  }
  compiled->jit = pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE) == 0;
  compiled->limits = pcre2_match_context_create(nullptr);
  if (compiled->limits == nullptr) {
    return absl::ResourceExhaustedError("no memory for the split pattern");
  }
  pcre2_set_match_limit(compiled->limits, kSplitMatchLimit);
  pcre2_set_heap_limit(compiled->limits, kSplitHeapLimitKib);
  return std::unique_ptr<Pretokenizer>(new Pretokenizer(std::move(compiled)));
}

absl::StatusOr<Pretokenizer::Span> Pretokenizer::FindFrom(
    absl::string_view text, size_t from, void* match_data) const {
  auto* data = static_cast<pcre2_match_data*>(match_data);
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (compiled_->jit) {
    result = pcre2_jit_match(compiled_->code, Subject(text), text.size(), from,
                             PCRE2_NO_UTF_CHECK, data, compiled_->limits);
  }
  // JIT code has 32 KiB of stack. What needs more is rare enough to interpret.
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result =
        pcre2_match(compiled_->code, Subject(text), text.size(), from,
                    PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, compiled_->limits);
  }
  if (result == PCRE2_ERROR_NOMATCH) return Span{};
  if (result < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer's split pattern stops at byte ", from,
                     " of ", text.size(), ": ", PcreMessage(result)));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
  return Span{true, bounds[0], bounds[1]};
}

absl::Status Pretokenizer::Split(
    absl::string_view text,
    absl::FunctionRef<void(absl::string_view)> piece) const {
  if (text.empty()) return absl::OkStatus();
  const std::unique_ptr<pcre2_match_data, MatchDataDeleter> data(
      pcre2_match_data_create(1, nullptr));
  if (data == nullptr) {
    return absl::ResourceExhaustedError("no memory to split a text");
  }
  size_t given = 0;  // Everything before it is in a piece.
  size_t from = 0;
  while (from < text.size()) {
    ASSIGN_OR_RETURN(const Span match, FindFrom(text, from, data.get()));
    if (!match.found) break;
    if (match.begin < from || match.end < match.begin) {
      // \K can move the start of a match to where it likes.
      return absl::InvalidArgumentError(absl::StrCat(
          "the tokenizer's split pattern matches backwards at byte ", from));
    }
    if (match.begin == match.end) {
      if (match.end == text.size()) break;
      from = match.end + FirstUtf8Unit(text.substr(match.end)).size;
      if (match.begin > given) piece(text.substr(given, match.begin - given));
      given = match.begin;
      continue;
    }
    if (match.begin > given) piece(text.substr(given, match.begin - given));
    piece(text.substr(match.begin, match.end - match.begin));
    given = from = match.end;
  }
  if (given < text.size()) piece(text.substr(given));
  return absl::OkStatus();
}

}  // namespace phalanx
