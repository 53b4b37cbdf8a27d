#ifndef PHALANX_WORKER_SCHEDULER_SEQUENCE_H_
#define PHALANX_WORKER_SCHEDULER_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "worker/cache/prefix_cache.h"
#include "worker/scheduler/fair_shares.h"
#include "worker/scheduler/request.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// So often a sequence may lose its caches to others. Then it gets all the
// blocks that it may ever need at once, and keeps them.
inline constexpr int kMaxPreemptions = 4;

// Where a suspect stands; who is none has passed.
enum class Trial : uint8_t { kUntried, kTold, kPassed };

// Where a request stands. Owned by the scheduler, from Submit to its end;
// engine thread only. It runs while it has a state slot, else it waits.
struct Sequence {
  Request request;  // Its ids have moved to `tokens`, its anchors thinned out.
  TokenSink* sink = nullptr;  // Null once it has its end.
  int64_t arrival = 0;        // 1, 2, 3 .. in order of Submit.
  int priority = 0;           // As asked for, 1..kHighestPriority.
  double submitted_seconds = 0;
  bool cancel_asked = false;
  Trial trial = Trial::kPassed;

  // Prompt, emitted and new ids, in order; the first `past` are in the caches.
  std::vector<int32_t> tokens;
  int64_t prompt_tokens = 0;
  int64_t past = 0;
  int64_t max_total_tokens = 0;
  // Rows of the prompt whose logits are asked for, from the first on, and how
  // many of them were told.
  int64_t rows_to_score = 0;
  int64_t rows_scored = 0;

  // While it runs.
  int32_t state_slot = -1;
  std::vector<int32_t> blocks;
  int64_t reserved_blocks = 0;  // It is sure to get so many in all.
  bool decoding = false;        // It has made a token since its admission.
  bool in_plan = false;         // Has rows in a plan that is not committed.
  int32_t save_slot = -1;       // Where that plan saves its state, or none.
  // Kept states that it made.
  std::vector<PrefixCache::SnapshotId> snapshots;

  int64_t admission = 0;  // 1, 2, 3 .. in order of first ones; 0: none yet.
  int64_t admission_step = 0;  // The step of its last one.
  int preemptions = 0;

  // While it waits.
  FairShares::Share* share = nullptr;
  double waited_seconds = 0;          // Before waits_since.
  double waits_since = 0;             // Meaningless while it is paused.
  const Sequence* awaited = nullptr;  // Computes a prefix of it just now,
  int64_t awaited_tokens = 0;         // which is kept once it is so long.
  // Of the last attempt to admit it: what was free then. More is needed.
  std::optional<int64_t> refused_slack;
  int64_t refused_inserts = 0;

  // Since when its reader has been too slow; a paused sequence has no rows.
  std::optional<double> full_since;

  bool running() const { return state_slot >= 0; }
  bool paused() const { return full_since.has_value(); }

  // Rows to compute in all, as far as tokens are known. The last row of a
  // request that makes no tokens would serve nothing.
  int64_t rows() const {
    const auto known = static_cast<int64_t>(tokens.size());
    return max_total_tokens > prompt_tokens ? known : known - 1;
  }
  // Of these, not computed yet; 1 while decoding.
  int64_t pending() const { return rows() - past; }
  // Generated so far, in this epoch and earlier ones.
  int64_t generated() const {
    return static_cast<int64_t>(tokens.size()) - prompt_tokens;
  }
  bool scoring() const { return rows_scored < rows_to_score; }
  // The longest prefix that it may take from others: a row must be computed,
  // and every row whose logits are still asked for.
  int64_t longest_hit() const {
    if (request.cache.bypass) return 0;
    return scoring() ? rows_scored : rows() - 1;
  }
  double waited(double now) const {
    return waited_seconds + (paused() || running() ? 0 : now - waits_since);
  }
};

using SequencePtr = std::unique_ptr<Sequence>;

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_SEQUENCE_H_
