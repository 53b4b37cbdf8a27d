#include "gateway/cli/answer_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gateway/cli/terminal_text.h"

namespace phalanx {
namespace {

constexpr char kDim[] = "\033[2m";
constexpr char kPlain[] = "\033[0m";

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
