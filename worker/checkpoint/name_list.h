#ifndef PHALANX_WORKER_CHECKPOINT_NAME_LIST_H_
#define PHALANX_WORKER_CHECKPOINT_NAME_LIST_H_

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// Names for an error message: counts all, shows the first few, escaped.
class NameList {
 public:
  static constexpr int kShown = 8;

  void Add(absl::string_view name) {
    if (++count_ <= kShown)
      absl::StrAppend(&text_, count_ > 1 ? ", " : "", absl::CEscape(name));
    else if (count_ == kShown + 1)
      text_ += ", ...";
  }

  int count() const { return count_; }
  const std::string& text() const { return text_; }

 private:
  int count_ = 0;
  std::string text_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CHECKPOINT_NAME_LIST_H_
