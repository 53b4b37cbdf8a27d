#ifndef PHALANX_GATEWAY_CLI_CHOICE_ORDER_H_
#define PHALANX_GATEWAY_CLI_CHOICE_ORDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "inference.pb.h"

namespace phalanx {

// The choices of a stream come at once; a person reads one after another.
// Events of the first choice are shown as they come, those of a later one once
// all before it have finished; what belongs to no choice is shown at once. One
// per stream, one thread.
class ChoiceOrder {
 public:
  using Show = std::function<void(const v1::GenerateEvent&)>;

  explicit ChoiceOrder(Show show) : show_(std::move(show)) {}

  void Add(const v1::GenerateEvent& event);

  // Shows what is held, where the stream ended before its choices did.
  void End();

 private:
  void ShowOfCurrent(const v1::GenerateEvent& event);

  const Show show_;
  int32_t current_ = 0;
  std::map<int32_t, std::vector<v1::GenerateEvent>> held_;  // By choice.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_CHOICE_ORDER_H_
