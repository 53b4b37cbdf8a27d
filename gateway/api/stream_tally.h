#ifndef PHALANX_GATEWAY_API_STREAM_TALLY_H_
#define PHALANX_GATEWAY_API_STREAM_TALLY_H_

#include <cstdint>

#include "common/clock.h"
#include "gateway/api/request_observer.h"

namespace phalanx {

// The figures of one stream, for its Summary, its finished line and the
// observer. Used under the stream's lock.
class StreamTally {
 public:
  StreamTally(RequestObserver& observer, const Clock& clock,
              const QueuedRequest& place, int64_t prompt_tokens)
      : observer_(observer),
        clock_(clock),
        place_(place),
        prompt_tokens_(prompt_tokens) {}

  // The worker's stream is about to start. What was begun must End.
  void Begin();
  void Admitted(double queue_seconds, int64_t cached_tokens);
  // Another group has it.
  void Moved(int64_t group);
  // So many came so far, of which so many were reasoning.
  void Tokens(int64_t tokens, int64_t reasoning_tokens);
  // `bytes` more wait for the client; fewer.
  void Buffered(int64_t bytes);
  // A delta that brings the client `tokens` more is handed to gRPC.
  void Written(int64_t tokens);
  // So many tokens came so far that the client has from elsewhere.
  void Withheld(int64_t tokens);
  void Paused() { paused_seconds_ = clock_.now_seconds(); }
  void Resumed();
  // The client gets nothing further of what waits or comes.
  void Dropped() { dropped_ = true; }
  void End(RequestOutcome outcome, const absl::Status& status);
  // Tokens came after the end.
  void Late(int64_t tokens);
  // A call to a worker that lasted so long.
  void WorkerEnded(absl::StatusCode code, double seconds);

  bool admitted() const { return admitted_; }
  double queue_seconds() const { return queue_seconds_; }
  int64_t cached_tokens() const { return cached_tokens_; }
  int64_t tokens() const { return tokens_; }
  // Since arrival; 0 before the first token.
  double first_token_seconds() const { return first_token_seconds_; }
  double total_seconds() const {
    return clock_.now_seconds() - place_.arrived_seconds;
  }

 private:
  RequestObserver& observer_;
  const Clock& clock_;
  QueuedRequest place_;
  const int64_t prompt_tokens_;
  bool begun_ = false;
  bool admitted_ = false;
  bool dropped_ = false;
  double admitted_seconds_ = 0;
  double queue_seconds_ = 0;
  double first_token_seconds_ = 0;
  double delta_seconds_ = 0;   // Of the last one; 0: none yet.
  double paused_seconds_ = 0;  // 0: not paused.
  int64_t cached_tokens_ = 0;
  int64_t tokens_ = 0;
  int64_t reasoning_tokens_ = 0;
  int64_t written_tokens_ = 0;
  int64_t withheld_tokens_ = 0;
  int64_t buffered_bytes_ = 0;
  int64_t buffered_bytes_most_ = 0;
  RequestOutcome outcome_ = RequestOutcome::kError;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_STREAM_TALLY_H_
