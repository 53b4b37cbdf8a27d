#include "gateway/cli/choice_order.h"

namespace phalanx {

void ChoiceOrder::Add(const v1::GenerateEvent& event) {
  if (!event.has_delta() && !event.has_finished()) return show_(event);
  const int32_t choice =
      event.has_delta() ? event.delta().index() : event.finished().index();
  if (choice == current_)
    ShowOfCurrent(event);
  else
    held_[choice].push_back(event);
}

void ChoiceOrder::ShowOfCurrent(const v1::GenerateEvent& event) {
  show_(event);
  if (!event.has_finished()) return;
  ++current_;
  // A choice has one Finished, its last event: this ends with the choices.
  auto held = held_.extract(current_);
  if (held.empty()) return;
  for (const v1::GenerateEvent& next : held.mapped()) ShowOfCurrent(next);
}

void ChoiceOrder::End() {
  for (const auto& [choice, events] : held_)
    for (const v1::GenerateEvent& event : events) show_(event);
  held_.clear();
}

}  // namespace phalanx
