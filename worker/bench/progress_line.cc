#include "worker/bench/progress_line.h"

#include <unistd.h>

#include <cstdio>

namespace phalanx {

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() { Show(""); }

void ProgressLine::Show(const std::string& what) {
  if (terminal_) std::fprintf(stderr, "\r\x1b[K%s", what.c_str());
}

}  // namespace phalanx
