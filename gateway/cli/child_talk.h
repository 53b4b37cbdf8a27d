#ifndef PHALANX_GATEWAY_CLI_CHILD_TALK_H_
#define PHALANX_GATEWAY_CLI_CHILD_TALK_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "gateway/cli/progress_bar.h"

namespace phalanx {

// What the children of `serve` say, and what of it the parent must know. One
// thread.
class ChildTalk {
 public:
  // `bar` makes room on the terminal for what children write; it outlives this.
  explicit ChildTalk(ProgressBar& bar) : bar_(bar) {}

  // A line of this child's stderr: passed on to ours, and read.
  void Take(const std::string& name, absl::string_view line);

  // Why this child ended, in its own words; empty if it said nothing.
  std::string ErrorOf(const std::string& name) const;

  // Of the gateway, once it listens.
  const std::string& address() const { return address_; }
  const std::string& admin_address() const { return admin_address_; }
  const std::string& metrics_address() const { return metrics_address_; }

  // The highest epoch that a group has formed in; 0: none.
  int64_t epoch() const { return epoch_; }

 private:
  ProgressBar& bar_;
  std::map<std::string, std::string> errors_;  // By child.
  std::string address_;
  std::string admin_address_;
  std::string metrics_address_;
  int64_t epoch_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_CHILD_TALK_H_
