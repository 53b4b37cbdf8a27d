#include "gateway/tokenizer/detokenizer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gateway/tokenizer/utf8.h"

namespace phalanx {

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer,
                                               bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special) {}

std::string IncrementalDetokenizer::Push(int32_t id) {
  if (tokenizer_.is_added(id)) {
    if (skip_special_ && tokenizer_.is_special(id)) return "";
    return absl::StrCat(Flush(), tokenizer_.TokenBytes(id));
  }
  absl::StrAppend(&waiting_, tokenizer_.TokenBytes(id));
  std::string text;
  absl::string_view rest = waiting_;
  while (!rest.empty()) {
    const size_t valid = ValidUtf8Size(rest);
    absl::StrAppend(&text, rest.substr(0, valid));
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const Utf8Unit unit = FirstUtf8Unit(rest);
    if (unit.kind == Utf8Kind::kCut) break;
    absl::StrAppend(&text, kReplacement);
    rest.remove_prefix(unit.size);
  }
  waiting_ = std::string(rest);
  return text;
}

std::string IncrementalDetokenizer::Flush() {
  if (waiting_.empty()) return "";
  waiting_.clear();
  return std::string(kReplacement);
}

}  // namespace phalanx
