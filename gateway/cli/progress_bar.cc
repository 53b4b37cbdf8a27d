#include "gateway/cli/progress_bar.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phalanx {
namespace {

// A load of less is not worth a line that comes and goes.
constexpr double kQuietSeconds = 0.5;

}  // namespace

std::optional<LoadingState> LoadingOf(const v1::GetStatusResponse& status) {
  LoadingState state;
  int ranks = 0;
  int known = 0;
  bool loading = false;
  for (const v1::GroupStatus& group : status.groups()) {
    for (const v1::RankStatus& rank : group.ranks()) {
      ++ranks;
      const v1::WorkerStatus& worker = rank.worker();
      if (!rank.reachable() || worker.load_total_bytes() <= 0) continue;
      ++known;
      loading = loading || worker.state() == v1::RANK_STATE_LOADING;
      const auto total = static_cast<double>(worker.load_total_bytes());
      state.total_bytes += total;
      state.done_bytes += worker.load_progress() * total;
    }
  }
  if (!loading) return std::nullopt;
  state.total_bytes *= static_cast<double>(ranks) / known;
  return state;
}

std::string LoadingText(const LoadingState& state, double bytes_per_second,
                        int columns) {
  const double ratio =
      state.total_bytes > 0 ? state.done_bytes / state.total_bytes : 0;
  const std::string head = absl::StrFormat("loading %3d%%", Percent(ratio));
  std::string tail = absl::StrFormat(
      "  %.1f of %.1f GB", state.done_bytes / 1e9, state.total_bytes / 1e9);
  if (bytes_per_second > 0)
    absl::StrAppend(
        &tail, absl::StrFormat("  %.1f GB/s  ", bytes_per_second / 1e9),
        TimeLeft((state.total_bytes - state.done_bytes) / bytes_per_second));
  std::string text = absl::StrCat(head, "  ", Bar(ratio), tail);
  if (std::ssize(text) > columns) text = absl::StrCat(head, tail);
  return text.substr(0, static_cast<size_t>(std::max(columns, 0)));
}

ProgressBar::ProgressBar(int fd, const Clock& clock)
    : clock_(clock), line_(fd) {}

void ProgressBar::Show(const LoadingState& state) {
  if (!line_.terminal()) return;
  const double now = clock_.now_seconds();
  // Weights begin anew after a bank was packed: another speed.
  if (!started_ || state.done_bytes < started_bytes_) {
    started_ = true;
    started_seconds_ = now;
    started_bytes_ = state.done_bytes;
  }
  const double seconds = now - started_seconds_;
  if (seconds < kQuietSeconds) return;
  line_.Show(LoadingText(state, (state.done_bytes - started_bytes_) / seconds,
                         line_.Columns()));
}

}  // namespace phalanx
