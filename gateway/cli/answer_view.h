#ifndef PHALANX_GATEWAY_CLI_ANSWER_VIEW_H_
#define PHALANX_GATEWAY_CLI_ANSWER_VIEW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "inference.pb.h"

namespace phalanx {

// How an answer looks: what to write for each piece of it. Reasoning stands
// apart from the answer by an empty line, dimmed where there is colour.
// One per answer; one thread.
class AnswerView {
 public:
  // On a terminal, control characters of the model are left out, since there
  // they are commands.
  AnswerView(bool terminal, bool color)
      : terminal_(terminal), color_(color && terminal) {}

  // Newlines before the first letter of a channel are dropped.
  std::string Add(const v1::Delta& delta);

  // Ends the last line, if there is one.
  std::string End() const { return wrote_ ? "\n" : ""; }

  // "12 tokens, first after 9 ms, 1043 tokens/s", as one dimmed line.
  std::string Timings(const v1::Summary& summary,
                      v1::FinishReason reason) const;

 private:
  bool terminal_;
  bool color_;
  bool wrote_ = false;
  bool channel_wrote_ = false;
  v1::Channel channel_ = v1::CHANNEL_UNSPECIFIED;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_ANSWER_VIEW_H_
