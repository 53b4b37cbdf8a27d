#ifndef PHALANX_GATEWAY_CLI_LINE_EDITOR_H_
#define PHALANX_GATEWAY_CLI_LINE_EDITOR_H_

#include <histedit.h>

#include <cstdio>
#include <optional>
#include <string>

namespace phalanx {

// Lines that a person types at the terminal on standard input, with editing
// and a history that is kept in memory. Made once; one thread. Sets the locale
// of the process for letters, since libedit reads through it.
class LineEditor {
 public:
  // The prompt is drawn on `out`, a terminal.
  explicit LineEditor(FILE* out);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next line without its end; empty after Ctrl-C, which drops what was
  // typed. Nothing after Ctrl-D on an empty line.
  std::optional<std::string> Read();

 private:
  static unsigned char OnInterrupt(EditLine* line, int);

  FILE* const out_;
  EditLine* line_ = nullptr;
  History* history_ = nullptr;
  bool interrupted_ = false;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_LINE_EDITOR_H_
