#ifndef PHALANX_WORKER_SCHEDULER_TOKEN_SINK_H_
#define PHALANX_WORKER_SCHEDULER_TOKEN_SINK_H_

// Where the tokens of one request go. Knows no gRPC.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace phalanx {

struct TopLogprob {
  int32_t id = 0;
  float logprob = 0;

  bool operator==(const TopLogprob&) const = default;
};

// One sampled token. Log-probabilities are of the raw logits (before
// temperature and filters) and set only when the request asked for them.
struct Token {
  int32_t id = 0;
  float logprob = 0;
  std::vector<TopLogprob> top;  // Most likely first, ties by lower id.

  bool operator==(const Token&) const = default;
};

enum class FinishReason {
  kStop,       // The last token is one of the request's stop_ids.
  kLength,     // max_tokens reached, or the context is full.
  kTimeLimit,  // max_time_seconds passed; the tokens so far are the answer.
};

// Life: made by whoever takes the request in; lent to the engine by a Submit
// that returns OK, until the engine calls Finish or Close, exactly once and
// last; the engine forgets it then, so the sink may delete itself.
//
// All but the last three are called by the engine thread alone and never block.
// The last three are read by the engine thread before every plan, and may be
// changed by any other.
class TokenSink {
 public:
  virtual ~TokenSink() = default;

  // The request left the queue after `queue_seconds`; its first
  // `cached_tokens` tokens need no computing. At most once, before any Push.
  virtual void Admitted(double queue_seconds, int64_t cached_tokens) = 0;

  // It gave up its caches for another; it will be replayed and go on. Any
  // number of times, after Admitted.
  virtual void Preempted() {}

  // A suspect's turn has come: it runs, alone, once trial_known().
  virtual void OnTrial() {}

  // The prompt's tokens but the first, in order, where the request asked for
  // their log-probabilities; before any Push.
  virtual void PushPrompt(std::vector<Token> /*tokens*/) {}

  // The next tokens, in order; at least one. A stop token is pushed like any
  // other, before Finish: withholding its text is the gateway's part.
  virtual void Push(std::vector<Token> tokens) = 0;

  // The normal end. stop_id: the stop token for kStop, else 0.
  virtual void Finish(FinishReason reason, int32_t stop_id) = 0;

  // Any other end; `error` is not OK.
  virtual void Close(absl::Status error) = 0;

  // True once nobody reads any more: the next plan drops the request and Closes
  // it CANCELLED/CLIENT. Any thread.
  virtual bool cancelled() const = 0;

  // True while so much waits for a slow reader that the sequence should pause.
  // Any thread.
  virtual bool full() const { return false; }

  // Whether the reader has what OnTrial told it. Any thread.
  virtual bool trial_known() const { return true; }
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_TOKEN_SINK_H_
