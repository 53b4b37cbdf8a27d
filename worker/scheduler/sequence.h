#ifndef PHALANX_WORKER_SCHEDULER_SEQUENCE_H_
#define PHALANX_WORKER_SCHEDULER_SEQUENCE_H_

#include <cstdint>
#include <vector>

#include "worker/scheduler/request.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// Where a request stands. Owned by the scheduler, from Submit to its end;
// engine thread only.
struct Sequence {
  Request request;  // Its ids have moved to `tokens`.
  TokenSink* sink = nullptr;
  double submitted_seconds = 0;
  bool cancel_asked = false;

  // Prompt, emitted and new ids, in order; the first `past` are in the caches.
  std::vector<int32_t> tokens;
  int64_t prompt_tokens = 0;
  int64_t past = 0;
  int64_t max_total_tokens = 0;

  // Held from admission to the end.
  int32_t state_slot = -1;
  std::vector<int32_t> blocks;

  // Rows that are known and not computed yet; 1 while decoding.
  int64_t pending() const { return static_cast<int64_t>(tokens.size()) - past; }
  // Generated so far, in this epoch and earlier ones.
  int64_t generated() const {
    return static_cast<int64_t>(tokens.size()) - prompt_tokens;
  }
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_SEQUENCE_H_
