#ifndef PHALANX_WORKER_SCHEDULER_SCHEDULER_H_
#define PHALANX_WORKER_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/clock.h"
#include "worker/scheduler/cache_account.h"
#include "worker/scheduler/fair_shares.h"
#include "worker/scheduler/limits.h"
#include "worker/scheduler/plan_builder.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/sequence.h"
#include "worker/scheduler/step_plan.h"
#include "worker/scheduler/token_sink.h"
#include "worker/scheduler/waiting_queue.h"
#include "worker/scheduler/work_rate.h"

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
// A request waits until there is a state slot, and KV blocks for its tokens so
// far, for what it must still make (min_tokens) and for a little more; those
// are then sure. It begins with the longest prefix that the cache has. Whose
// turn it is, AdmissionOrder says; nobody passes the one whose turn it is, so a
// big request cannot be starved by small ones, but two kinds step aside: who
// waits for a prefix that another is computing just now, and who is not read.
//
// Where memory is short, the sequence of the lowest priority, of these the one
// that was first admitted last, gives up its caches, waits at its old place and
// is replayed: the same request gives the same bytes. Nothing is pushed twice.
// The oldest of the highest priority always moves, and who lost its caches
// kMaxPreemptions times is admitted with all that it may ever need and keeps
// it. A request whose turn has not come may also take the place of running ones
// of lower priority.
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

  // Queues a request. The sink is lent until its end. A request that is
  // complete already (emitted_ids with a stop id last, max_tokens of them or a
  // full context; max_tokens 0 and a prompt of one token) Finishes at once. On
  // an error the sink is untouched and stays the caller's:
  //   INVALID_ARGUMENT    as ValidateRequest
  //   RESOURCE_EXHAUSTED  QUEUE_FULL{limit}: max_running + max_waiting active
  //   RESOURCE_EXHAUSTED  DEADLINE_UNMEETABLE{estimate_seconds}: at the pace of
  //     the last steps, the prompts before it alone take longer than its
  //     timeout
  absl::Status Submit(Request request, TokenSink* sink);

  // Marks every choice of this request; the next Plan drops it. False if it is
  // not here.
  bool Cancel(absl::string_view request_id);

  // Ends what was cancelled or is late, admits what fits, and says what to run:
  // one row of each decoding sequence, then chunks of prompts (PlanBuilder).
  // While a suspect is tried it has the only rows. No sequences: nothing can
  // run now (none is active; or all are paused, wait for trial_known, or for
  // these) and nothing may be committed. Else Commit must follow before the
  // next Plan, or CloseAll.
  StepPlan Plan();

  // What to do with each row of logits of the last plan, in plan order. Valid
  // until the next call that is not const.
  std::span<const SampleSpec> samples() const { return draft_.samples; }

  // The step of `plan`, the last one, was run. `sampled` has one entry for each
  // of samples(): tokens go to the sinks and may end their sequences (stop id,
  // max_tokens, context full: Finish); an error ends its sequence alone, with
  // Close, and NON_FINITE_LOGITS also drops the states that it kept. What ended
  // gives back its blocks and slot.
  void Commit(const StepPlan& plan, std::vector<absl::StatusOr<Token>> sampled);

  // Ends everything, waiting and running: with Close(in_step_error) what had
  // rows in a plan that was not committed, which is forgotten; else with
  // Close(error). Neither is OK.
  void CloseAll(const absl::Status& error, const absl::Status& in_step_error);
  void CloseAll(const absl::Status& error) { CloseAll(error, error); }

  // Keys of all that ended since the last call, in order; empty where on_ended
  // was given.
  std::vector<RequestKey> TakeEnded();

  SchedulerCounts counts() const;

 private:
  enum class Reason { kKv, kPriority };

  // scheduler.cc
  absl::Status CheckTimeout(const Request& request, int priority) const;
  void AddRows();
  void CommitRows(Sequence& sequence, int64_t rows,
                  std::span<absl::StatusOr<Token>> sampled);
  void CommitToken(Sequence& sequence, Token token);
  int64_t running() const { return static_cast<int64_t>(running_.size()); }

  // scheduler_admission.cc
  void NextTrial();
  bool AdmitTrial();
  void Admit();
  bool AwaitsPrefix(Sequence& sequence);
  bool TryAdmit(Sequence& sequence);
  bool AdmitInPlaceOfOthers(Sequence& sequence);
  int64_t TokensToReserve(const Sequence& sequence) const;
  void ExtendDecoding();
  Sequence* LowestBelow(int priority) const;
  void Preempt(Sequence& sequence, Reason reason);
  void LeaveCaches(Sequence& sequence);
  void MoveToQueue(Sequence& sequence);

  // scheduler_ends.cc
  void EndAndPark();
  void WatchReader(Sequence& sequence);
  void EndIfDue(Sequence& sequence);
  std::optional<FinishReason> FinishOf(const Sequence& sequence) const;
  TokenSink* End(Sequence& sequence);
  void FinishSequence(Sequence& sequence, FinishReason reason);
  void CloseSequence(Sequence& sequence, const absl::Status& error);
  void ForgetEnded();

  const SchedulerLimits limits_;
  const uint64_t epoch_;
  const Clock& clock_;
  const EndedCallback on_ended_;
  CacheAccount caches_;
  FairShares shares_;
  WaitingQueue waiting_;
  std::vector<SequencePtr> running_;  // In order of their last admission.
  Sequence* trial_ = nullptr;         // The suspect that is told, or tried.
  PlanDraft draft_;                   // Of the last plan.
  WorkRate rate_;
  std::vector<RequestKey> ended_;
  SchedulerCounts totals_;  // What only grows.
  double now_ = 0;          // When the last Plan began.
  int64_t hit_tokens_ = 0;  // Of sequences that the last plan admitted.
  int64_t arrivals_ = 0;
  int64_t admissions_ = 0;  // First ones.
  int64_t steps_ = 0;       // Planned ones.
  bool plan_outstanding_ = false;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_SCHEDULER_H_
