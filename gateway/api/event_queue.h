#ifndef PHALANX_GATEWAY_API_EVENT_QUEUE_H_
#define PHALANX_GATEWAY_API_EVENT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "inference.pb.h"

namespace phalanx {

// Events that wait for one client, in order. A delta joins the one before it
// while that waits too and is of the same choice and channel, so a client that
// is slower than the model gets fewer and larger events, with the same ids,
// text and log-probabilities. Under the stream's lock.
class EventQueue {
 public:
  explicit EventQueue(std::string request_id)
      : request_id_(std::move(request_id)) {}

  struct Entry {
    v1::GenerateEvent event;
    int64_t tokens = 0;  // That a delta brings.
    int64_t joined = 1;  // Deltas in this one.
    int64_t bytes = 0;   // About what it takes on the wire.
  };

  void Push(v1::GenerateEvent event);
  void Push(v1::Delta delta, int64_t tokens);

  // The next one, with its request id and its place in the stream; only while
  // it is not empty.
  Entry Pop();
  void Clear();

  bool empty() const { return entries_.empty(); }
  // Events that wait, joined ones counted as they came.
  int64_t size() const { return size_; }
  int64_t bytes() const { return bytes_; }

 private:
  void Add(Entry entry);

  const std::string request_id_;
  std::deque<Entry> entries_;
  int64_t size_ = 0;
  int64_t bytes_ = 0;
  uint64_t seq_ = 0;  // Of the last that was popped.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_EVENT_QUEUE_H_
