#include "gateway/cli/terminal_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phalanx {
namespace {

constexpr int kBarWidth = 24;
constexpr int kUsualColumns = 80;

void Write(int fd, const std::string& text) {
  [[maybe_unused]] const ssize_t n = write(fd, text.data(), text.size());
}

}  // namespace

std::string Bar(double ratio) {
  const int full =
      std::clamp(static_cast<int>(ratio * kBarWidth), 0, kBarWidth);
  return absl::StrCat("[", std::string(static_cast<size_t>(full), '#'),
                      std::string(static_cast<size_t>(kBarWidth - full), '.'),
                      "]");
}

std::string TimeLeft(double seconds) {
  constexpr double kDay = 86400;  // Who waits longer, reads no seconds.
  if (seconds >= kDay) return "more than a day left";
  const int whole = static_cast<int>(seconds + 0.5);
  if (whole < 60) return absl::StrFormat("%d s left", whole);
  return absl::StrFormat("%d min %02d s left", whole / 60, whole % 60);
}

int Percent(double ratio) {
  return static_cast<int>(std::clamp(ratio, 0.0, 1.0) * 100);
}

TerminalLine::TerminalLine(int fd) : fd_(fd), terminal_(isatty(fd) == 1) {}

int TerminalLine::Columns() const {
  winsize size{};
  if (ioctl(fd_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return kUsualColumns - 1;
  return size.ws_col - 1;
}

void TerminalLine::Show(const std::string& text) {
  if (!terminal_ || text == shown_) return;
  Write(fd_, absl::StrCat("\r", text, "\x1b[K"));
  shown_ = text;
}

void TerminalLine::Clear() {
  if (shown_.empty()) return;
  Write(fd_, "\r\x1b[K");
  shown_.clear();
}

}  // namespace phalanx
