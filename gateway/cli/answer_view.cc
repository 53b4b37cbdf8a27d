#include "gateway/cli/answer_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phalanx {
namespace {

constexpr char kDim[] = "\033[2m";
constexpr char kPlain[] = "\033[0m";

// C0 but for tab and newline, DEL, and C1 as UTF-8 spells it (C2 80 to C2 9F).
std::string WithoutControls(absl::string_view text) {
  std::string kept;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = text[i];
    const unsigned char next = i + 1 < text.size() ? text[i + 1] : 0;
    if (c == 0xC2 && next >= 0x80 && next <= 0x9F)
      ++i;
    else if ((c >= 0x20 && c != 0x7F) || c == '\n' || c == '\t')
      kept.push_back(text[i]);
  }
  return kept;
}

std::string Dimmed(absl::string_view text, bool color) {
  return color ? absl::StrCat(kDim, text, kPlain) : std::string(text);
}

}  // namespace

std::string AnswerView::Add(const v1::Delta& delta) {
  if (delta.channel() != channel_) {
    channel_ = delta.channel();
    channel_wrote_ = false;
  }
  std::string text = terminal_ ? WithoutControls(delta.text()) : delta.text();
  if (!channel_wrote_)
    text.erase(0, std::min(text.find_first_not_of('\n'), text.size()));
  if (text.empty()) return "";
  const bool gap = wrote_ && !channel_wrote_;
  wrote_ = channel_wrote_ = true;
  return absl::StrCat(
      gap ? "\n\n" : "",
      Dimmed(text, color_ && channel_ == v1::CHANNEL_REASONING));
}

std::string AnswerView::Timings(const v1::Summary& summary,
                                v1::FinishReason reason) const {
  return absl::StrCat(
      Dimmed(
          absl::StrFormat(
              "%d tokens, first after %.0f ms, %.0f tokens/s%s",
              summary.completion_tokens(),
              summary.time_to_first_token_seconds() * 1000,
              summary.tokens_per_second(),
              reason == v1::FINISH_REASON_LENGTH ? ", cut at the limit" : ""),
          color_),
      "\n");
}

}  // namespace phalanx
