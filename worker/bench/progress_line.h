#ifndef PHALANX_WORKER_BENCH_PROGRESS_LINE_H_
#define PHALANX_WORKER_BENCH_PROGRESS_LINE_H_

#include <string>

namespace phalanx {

// One line on stderr, if that is a terminal, that says what is being done, and
// is gone with this.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  void Show(const std::string& what);

 private:
  const bool terminal_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_PROGRESS_LINE_H_
