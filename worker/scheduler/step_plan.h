#ifndef PHALANX_WORKER_SCHEDULER_STEP_PLAN_H_
#define PHALANX_WORKER_SCHEDULER_STEP_PLAN_H_

// What all ranks run next, and its bytes. Rank 0 makes and broadcasts it; the
// followers decode it and trust nothing in it.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

enum class StepKind : uint8_t {
  kRun = 1,     // A step for requests.
  kWarmUp = 2,  // The same work before the group is ready; nobody listens.
  kStop = 3,    // The group's last plan: followers leave their loop.
};

// The rows of one sequence in a step.
struct PlannedSequence {
  int32_t state_slot = 0;            // Of its GDN state; unique in a plan.
  int64_t past = 0;                  // Tokens already in the caches.
  std::vector<int32_t> token_ids;    // Rows of this step; at least one.
  std::vector<int32_t> block_table;  // Of positions 0 .. past + rows - 1.
  int64_t logit_rows = 0;            // Of the last so many rows.

  bool operator==(const PlannedSequence&) const = default;
};

// Copies one slot of GDN state, or one KV block, to another: in every layer, on
// every rank, of this rank's share.
struct CacheCopy {
  int32_t from = 0;
  int32_t to = 0;

  bool operator==(const CacheCopy&) const = default;
};

// In this order: block_copies and state_restores, one after another as listed;
// then the rows of all sequences; then state_saves, as listed.
struct StepPlan {
  StepKind kind = StepKind::kRun;
  uint64_t epoch = 0;
  int64_t step = 0;  // 1, 2, 3 .. in an epoch.
  std::vector<PlannedSequence> sequences;
  std::vector<CacheCopy> block_copies = {};  // A cached block -> a sequence's.
  std::vector<CacheCopy> state_restores =
      {};                                   // A snapshot -> a sequence's slot.
  std::vector<CacheCopy> state_saves = {};  // A sequence's slot -> a snapshot.

  // Rows of all sequences together.
  int64_t token_count() const;
  // Rows of the logits, in plan order.
  int64_t logits_count() const;

  bool operator==(const StepPlan&) const = default;
};

// What a plan may hold at most; the same on every rank of a group.
struct StepPlanLimits {
  int64_t max_sequences = 0;
  int64_t max_tokens = 0;      // Rows of a step.
  int64_t max_logit_rows = 0;  // Rows of logits of a step.
  int64_t max_model_len = 0;   // past + rows of a sequence.
  int64_t vocab_size = 0;
  int64_t state_slots = 0;
  int64_t kv_blocks = 0;
  int64_t block_tokens = 64;  // Tokens of a KV block.
};

// The largest size of an encoded plan under these limits, in bytes: what a
// control channel must be able to carry.
int64_t MaxEncodedBytes(const StepPlanLimits& limits);

// Little-endian bytes, with a version in front. The plan obeys the limits of
// whoever decodes it. Pure; any thread.
std::string Encode(const StepPlan& plan);

// The inverse. Any bytes whatever are safe: INVALID_ARGUMENT, naming what is
// wrong, unless they are exactly one plan of this version that obeys `limits`
// (ids, slots and blocks in range, slots distinct, block tables of just the
// right length, no sequence in a kStop and at least one in the others, and no
// more copies of a kind than max_sequences).
// Allocates no more than the limits allow. The caller compares epoch and step.
absl::StatusOr<StepPlan> Decode(absl::string_view bytes,
                                const StepPlanLimits& limits);

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_STEP_PLAN_H_
