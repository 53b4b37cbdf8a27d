#include "gateway/cli/line_editor.h"

#include <locale.h>
#include <stdlib.h>

#include "common/check.h"

namespace phalanx {
namespace {

constexpr int kHistoryLines = 1000;

// Without a locale every letter beyond ASCII would be lost.
void UseUtf8() {
  setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
}

char* Prompt(EditLine*) {
  static char prompt[] = "> ";
  return prompt;
}

}  // namespace

LineEditor::LineEditor(FILE* out) : out_(out) {
  UseUtf8();
  line_ = el_init("phalanx", stdin, out_, stderr);
  history_ = history_init();
  CHECK(line_ != nullptr && history_ != nullptr);
  HistEvent event;
  history(history_, &event, H_SETSIZE, kHistoryLines);
  history(history_, &event, H_SETUNIQUE, 1);
  el_set(line_, EL_CLIENTDATA, this);
  el_set(line_, EL_PROMPT, Prompt);
  el_set(line_, EL_HIST, history, history_);
  el_set(line_, EL_EDITOR, "emacs");
  // SIGTERM, SIGHUP and a new window size find the terminal as it was.
  el_set(line_, EL_SIGNAL, 1);
  // While a line is edited Ctrl-C is a key, not a signal (-d: that mode alone).
  el_set(line_, EL_SETTY, "-d", "-isig", nullptr);
  el_set(line_, EL_ADDFN, "drop-line", "Drop what was typed", OnInterrupt);
  el_set(line_, EL_BIND, "^C", "drop-line", nullptr);
}

LineEditor::~LineEditor() {
  el_end(line_);
  history_end(history_);
}

unsigned char LineEditor::OnInterrupt(EditLine* line, int) {
  void* self = nullptr;
  el_get(line, EL_CLIENTDATA, &self);
  static_cast<LineEditor*>(self)->interrupted_ = true;
  return CC_NEWLINE;
}

std::optional<std::string> LineEditor::Read() {
  interrupted_ = false;
  int count = 0;
  const char* typed = el_gets(line_, &count);
  if (interrupted_) {
    std::fputs("^C\n", out_);
    return "";
  }
  if (typed == nullptr || count <= 0) return std::nullopt;
  std::string text(typed, count);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.pop_back();
  if (!text.empty()) {
    HistEvent event;
    history(history_, &event, H_ENTER, text.c_str());
  }
  return text;
}

}  // namespace phalanx
