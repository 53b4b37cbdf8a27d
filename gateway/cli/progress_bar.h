#ifndef PHALANX_GATEWAY_CLI_PROGRESS_BAR_H_
#define PHALANX_GATEWAY_CLI_PROGRESS_BAR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "admin.pb.h"
#include "common/clock.h"
#include "gateway/cli/terminal_line.h"

namespace phalanx {

// How far the ranks have loaded their weights, all together.
struct LoadingState {
  double done_bytes = 0;
  double total_bytes = 0;
};

// What a status says of it; nothing if no rank loads. A rank that has not said
// yet how much it will read counts as much as those that have.
std::optional<LoadingState> LoadingOf(const v1::GetStatusResponse& status);

// One line of at most `columns` characters: per cent, a bar, gigabytes (10^9)
// of gigabytes, and, if the speed is known, that and the time left.
// `bytes_per_second` 0: unknown.
std::string LoadingText(const LoadingState& state, double bytes_per_second,
                        int columns);

// That line at the bottom of a terminal, rewritten in place; nothing at all
// where `fd` is no terminal, and for a load that is over in a moment. One
// thread.
class ProgressBar {
 public:
  ProgressBar(int fd, const Clock& clock);

  void Show(const LoadingState& state);
  // Takes the line away, for others to write there; the next Show brings it
  // back.
  void Clear() { line_.Clear(); }

 private:
  const Clock& clock_;
  TerminalLine line_;
  bool started_ = false;
  double started_seconds_ = 0;
  double started_bytes_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_PROGRESS_BAR_H_
