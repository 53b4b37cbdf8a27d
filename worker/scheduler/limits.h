#ifndef PHALANX_WORKER_SCHEDULER_LIMITS_H_
#define PHALANX_WORKER_SCHEDULER_LIMITS_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/step_plan.h"

namespace phalanx {

// Every bound of the scheduler. Fixed for the life of a group.
struct SchedulerLimits {
  int64_t max_running = 0;    // Sequences that hold caches at once.
  int64_t max_waiting = 0;    // Sequences in the queue beyond those.
  int64_t max_model_len = 0;  // Prompt and new tokens of one sequence.
  int64_t prefill_chunk = 0;  // Most rows of prompts in a step, all together.
  int64_t step_tokens = 0;    // Most rows of a step: decode, then prefill.
  int64_t kv_blocks = 0;      // KV blocks in the pool.
  int64_t state_slots = 0;    // GDN state slots in the pool.
  int64_t vocab_size = 0;
  int64_t block_tokens = 64;  // Tokens of a KV block.
  // Rows of logits of a step, for prompt log-probabilities; at least
  // max_running. 0: max_running.
  int64_t logit_rows = 0;
  // Positions of long prompts where the state is kept beside the anchors.
  int64_t snapshot_tokens = 2048;
  // A request that waits gains one level of priority each so many seconds.
  double ageing_seconds = 5;
  // Waits longer: RESOURCE_EXHAUSTED/QUEUE_TIMEOUT. Infinite: never.
  double max_wait_seconds = std::numeric_limits<double>::infinity();
  // How long a reader may leave its sequence paused before it gives up its
  // caches, and before it is ended SLOW_READER.
  double park_seconds = 2;
  double slow_reader_seconds = 60;
};

// INVALID_ARGUMENT, naming the field, unless all are positive (park_seconds may
// be 0), step_tokens covers one row of each running sequence (so that decode
// never starves), state_slots covers max_running, and so does logit_rows unless
// it is 0. Any thread.
absl::Status ValidateLimits(const SchedulerLimits& limits);

// What a plan made under these limits obeys.
StepPlanLimits PlanLimits(const SchedulerLimits& limits);

// Tokens that the sequence may come to: prompt + max_tokens, cut to
// max_model_len.
int64_t MaxTotalTokens(const Request& request, const SchedulerLimits& limits);

// Whether a request can be served at all under these limits, however long it
// waits. Pure; any thread. INVALID_ARGUMENT with a reason:
//   PROMPT_EMPTY
//   PROMPT_TOO_LONG{limit,actual}  no room for one new token
//   NEVER_FITS{needs,capacity}     more KV blocks than there are, were all
//                                  tokens made that it may come to
//   BAD_FIELD{field}               anything else, named with value and limit
absl::Status ValidateRequest(const Request& request,
                             const SchedulerLimits& limits);

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_LIMITS_H_
