#ifndef PHALANX_GATEWAY_CLI_TERMINAL_LINE_H_
#define PHALANX_GATEWAY_CLI_TERMINAL_LINE_H_

#include <string>

namespace phalanx {

// "[######..................]": 24 places for a ratio in [0, 1].
std::string Bar(double ratio);

// "24 s left", "12 min 34 s left".
std::string TimeLeft(double seconds);

// Whole per cent, rounded down: 100 is all.
int Percent(double ratio);

// One line at the bottom of a terminal, rewritten in place; nothing at all
// where `fd` is no terminal. One thread.
class TerminalLine {
 public:
  explicit TerminalLine(int fd);

  bool terminal() const { return terminal_; }
  // What a line may hold: the last column stays free, else some terminals begin
  // a new line.
  int Columns() const;

  void Show(const std::string& text);
  // Takes the line away, for others to write there; the next Show brings it
  // back.
  void Clear();

 private:
  const int fd_;
  const bool terminal_;
  std::string shown_;  // Empty: no line is there.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_TERMINAL_LINE_H_
