#include "worker/scheduler/waiting_queue.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace phalanx {
namespace {

bool CameBefore(const SequencePtr& a, int64_t arrival) {
  return a->arrival < arrival;
}

}  // namespace

int EffectivePriority(const Sequence& sequence, double now,
                      double ageing_seconds) {
  const double levels = sequence.waited(now) / ageing_seconds;
  const int most = kHighestPriority - sequence.priority;
  return sequence.priority + (levels < most ? static_cast<int>(levels) : most);
}

void WaitingQueue::Push(SequencePtr sequence, double now) {
  sequence->waits_since = now;
  ++sequence->share->waiting;
  const auto place = std::lower_bound(sequences_.begin(), sequences_.end(),
                                      sequence->arrival, CameBefore);
  sequences_.insert(place, std::move(sequence));
}

SequencePtr WaitingQueue::Take(Sequence& sequence, double now) {
  const auto place = std::lower_bound(sequences_.begin(), sequences_.end(),
                                      sequence.arrival, CameBefore);
  CHECK(place != sequences_.end() && place->get() == &sequence);
  if (!sequence.paused()) sequence.waited_seconds += now - sequence.waits_since;
  --sequence.share->waiting;
  SequencePtr taken = std::move(*place);
  sequences_.erase(place);
  return taken;
}

void WaitingQueue::ForgetEnded() {
  std::erase_if(sequences_, [](const SequencePtr& sequence) {
    return sequence->sink == nullptr;
  });
}

AdmissionOrder::AdmissionOrder(const WaitingQueue& queue, double now,
                               double ageing_seconds) {
  heap_.reserve(queue.size());
  for (const SequencePtr& sequence : queue.all()) {
    if (sequence->trial != Trial::kPassed || sequence->paused()) continue;
    heap_.push_back(
        {.priority = EffectivePriority(*sequence, now, ageing_seconds),
         .service = sequence->share->service,
         .sequence = sequence.get()});
  }
  std::make_heap(heap_.begin(), heap_.end(), After);
}

Sequence* AdmissionOrder::Next() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), After);
    Candidate& last = heap_.back();
    if (last.service == last.sequence->share->service) {
      Sequence* next = last.sequence;
      heap_.pop_back();
      return next;
    }
    last.service = last.sequence->share->service;
    std::push_heap(heap_.begin(), heap_.end(), After);
  }
  return nullptr;
}

bool AdmissionOrder::After(const Candidate& a, const Candidate& b) {
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.service != b.service) return a.service > b.service;
  return a.sequence->arrival > b.sequence->arrival;
}

}  // namespace phalanx
