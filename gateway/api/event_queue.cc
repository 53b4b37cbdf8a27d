#include "gateway/api/event_queue.h"

#include "common/check.h"

namespace phalanx {
namespace {

// Moves what `from` has behind what `to` has.
void Join(v1::Delta& from, v1::Delta& to) {
  if (!from.text().empty()) to.mutable_text()->append(from.text());
  to.mutable_token_ids()->MergeFrom(from.token_ids());
  for (v1::TokenLogprob& logprob : *from.mutable_logprobs())
    to.add_logprobs()->Swap(&logprob);
}

}  // namespace

void EventQueue::Add(Entry entry) {
  ++size_;
  bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
}

void EventQueue::Push(v1::GenerateEvent event) {
  Entry entry;
  entry.bytes = static_cast<int64_t>(event.ByteSizeLong());
  entry.event = std::move(event);
  Add(std::move(entry));
}

void EventQueue::Push(v1::Delta delta, int64_t tokens) {
  const auto bytes = static_cast<int64_t>(delta.ByteSizeLong());
  if (!entries_.empty() && entries_.back().event.has_delta()) {
    Entry& last = entries_.back();
    v1::Delta& waiting = *last.event.mutable_delta();
    if (waiting.index() == delta.index() &&
        waiting.channel() == delta.channel()) {
      Join(delta, waiting);
      last.tokens += tokens;
      ++last.joined;
      last.bytes += bytes;
      ++size_;
      bytes_ += bytes;
      return;
    }
  }
  Entry entry;
  entry.tokens = tokens;
  entry.bytes = bytes;
  *entry.event.mutable_delta() = std::move(delta);
  Add(std::move(entry));
}

EventQueue::Entry EventQueue::Pop() {
  CHECK(!entries_.empty());
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  size_ -= entry.joined;
  bytes_ -= entry.bytes;
  entry.event.set_request_id(request_id_);
  entry.event.set_seq(++seq_);
  return entry;
}

void EventQueue::Clear() {
  entries_.clear();
  size_ = 0;
  bytes_ = 0;
}

}  // namespace phalanx
