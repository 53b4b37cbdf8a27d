#include "worker/collective/loss.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/reason.h"

namespace phalanx {
namespace {

constexpr char kWord[] = "GROUP_LOST";

}  // namespace

absl::Status LossError(uint64_t epoch, const Loss& loss) {
  return ReasonedError(
      absl::StatusCode::kUnavailable, kWord,
      absl::StrCat("the group of epoch ", epoch, " is over: rank ", loss.rank,
                   ": ", loss.cause),
      {{"epoch", absl::StrCat(epoch)},
       {"rank", absl::StrCat(loss.rank)},
       {"cause", loss.cause}});
}

Loss LossOf(const absl::Status& reason, int caller, int size) {
  CHECK(!reason.ok());
  Loss loss{.rank = caller, .cause = std::string(reason.message())};
  const Reason named = ReasonOf(reason);
  if (named.word == kWord) {
    int rank = 0;
    const auto rank_text = named.metadata.find("rank");
    if (rank_text != named.metadata.end() &&
        absl::SimpleAtoi(rank_text->second, &rank) && rank >= 0 && rank < size)
      loss.rank = rank;
    const auto cause = named.metadata.find("cause");
    if (cause != named.metadata.end()) loss.cause = cause->second;
  }
  if (loss.cause.size() > kMaxCauseBytes) loss.cause.resize(kMaxCauseBytes);
  // Printable ASCII only: the cut may split a character, and a protobuf string
  // must be whole UTF-8.
  for (char& c : loss.cause)
    if (c < ' ' || c > '~') c = '?';
  return loss;
}

}  // namespace phalanx
