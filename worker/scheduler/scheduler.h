#ifndef PHALANX_WORKER_SCHEDULER_SCHEDULER_H_
#define PHALANX_WORKER_SCHEDULER_SCHEDULER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/clock.h"
#include "worker/cache/block_pool.h"
#include "worker/cache/slot_pool.h"
#include "worker/scheduler/limits.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/sequence.h"
#include "worker/scheduler/step_plan.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// What the scheduler holds now, for status and metrics.
struct SchedulerCounts {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t kv_blocks_used = 0;      // Of live sequences.
  int64_t kv_blocks_reusable = 0;  // Of the prefix cache alone.
  int64_t kv_blocks_total = 0;
  int64_t state_slots_used = 0;      // Of live sequences.
  int64_t state_slots_snapshot = 0;  // Of the prefix cache.
  int64_t state_slots_total = 0;
  int64_t steps = 0;  // Committed ones.
  // Since the epoch began.
  int64_t preempted_for_kv = 0;
  int64_t preempted_for_state = 0;
  int64_t preempted_for_priority = 0;
  int64_t prefix_queried_tokens = 0;  // Of prompts that looked for a prefix.
  int64_t prefix_hit_tokens = 0;      // Of those, found.
  double oldest_wait_seconds = 0;     // Of those that wait; 0: none does.
};

// Decides who runs next. A pure state machine: no threads, no time but the
// clock it is given, and the same calls always make the same plans.
//
// Life: one per epoch, made and used by the engine thread of rank 0 alone.
//
//   scheduler.Submit(request, sink);
//   StepPlan plan = scheduler.Plan();
//   if (!plan.sequences.empty()) {
//     ... broadcast, run, sample one token for each of scheduler.samples() ...
//     scheduler.Commit(plan, sampled);
//   }
//
// A request waits until a state slot and KV blocks for all the tokens it may
// come to are free; so what is admitted always finishes. Higher priorities
// leave the queue first, in order of arrival within one; nobody overtakes the
// one whose turn it is, so a big request cannot be starved by small ones.
//
// Each sink gets Admitted, tokens, and one end; it is never called after that.
// Sinks must not call back into the scheduler.
class Scheduler {
 public:
  // Told of a key just before its sink gets its end, so that whoever learns of
  // the end may use the id again at once: give Inbox::Ended here.
  using EndedCallback = std::function<void(const RequestKey&)>;

  // `limits` passed ValidateLimits; `clock` outlives the scheduler. Without
  // `on_ended`, keys are kept for TakeEnded.
  Scheduler(const SchedulerLimits& limits, uint64_t epoch, const Clock& clock,
            EndedCallback on_ended = nullptr);
  // Everything must have ended: call CloseAll first.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Queues a request. The sink is lent until its end. A request whose
  // emitted_ids are already complete (stop id last, max_tokens, full context)
  // Finishes at once. On an error the sink is untouched and stays the caller's:
  //   INVALID_ARGUMENT    as ValidateRequest
  //   RESOURCE_EXHAUSTED  QUEUE_FULL{limit}: max_running + max_waiting active
  absl::Status Submit(Request request, TokenSink* sink);

  // Marks every choice of this request; the next Plan drops it. False if it is
  // not here.
  bool Cancel(absl::string_view request_id);

  // Drops what was cancelled (Close CANCELLED/CLIENT), admits what fits, and
  // says what to run: first one row of each decoding sequence, then prefill
  // chunks in order of admission, within step_tokens. No sequences: nothing is
  // active and nothing may be committed. Else Commit must follow before the
  // next Plan, or CloseAll.
  StepPlan Plan();

  // How to sample, for each sequence of the last plan that wants logits, in
  // plan order. Valid until the next call that is not const.
  std::span<const SampleSpec> samples() const { return samples_; }

  // The step of `plan`, the last one, was run. `sampled` has one entry for each
  // of samples(): the token goes to the sink and may end the sequence (stop id,
  // max_tokens, context full: Finish); an error ends that sequence alone, with
  // Close. What ended gives back its blocks and slot.
  void Commit(const StepPlan& plan, std::vector<absl::StatusOr<Token>> sampled);

  // Ends everything, waiting and running, with Close(error). A plan that was
  // not committed is forgotten. `error` is not OK.
  void CloseAll(const absl::Status& error);

  // Keys of all that ended since the last call, in order; empty where on_ended
  // was given.
  std::vector<RequestKey> TakeEnded();

  SchedulerCounts counts() const;

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  void DropCancelled();
  void Admit();
  bool TryAdmit(SequencePtr& sequence);
  void AddRows(Sequence& sequence, int64_t rows, StepPlan& plan);
  void CommitToken(Sequence& sequence, absl::StatusOr<Token> sampled);
  std::optional<FinishReason> FinishOf(const Sequence& sequence) const;
  TokenSink* End(Sequence& sequence);
  void FinishSequence(Sequence& sequence, FinishReason reason);
  void CloseSequence(Sequence& sequence, const absl::Status& error);
  void ForgetEnded();
  int64_t waiting() const;

  const SchedulerLimits limits_;
  const uint64_t epoch_;
  const Clock& clock_;
  const EndedCallback on_ended_;
  BlockPool blocks_;
  SlotPool slots_;

  // Index: priority. Each in order of arrival.
  std::array<std::deque<SequencePtr>, kHighestPriority + 1> waiting_;
  std::vector<SequencePtr> running_;  // In order of admission.
  std::vector<Sequence*> by_slot_;    // Slot -> running sequence, or null.
  std::vector<SampleSpec> samples_;   // Of the last plan.
  std::vector<RequestKey> ended_;
  int64_t steps_ = 0;  // Planned ones.
  bool plan_outstanding_ = false;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_SCHEDULER_H_
