#include "worker/scheduler/plan_builder.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "common/check.h"
#include "common/units.h"
#include "worker/scheduler/anchors.h"

namespace phalanx {

PlanBuilder::PlanBuilder(const SchedulerLimits& limits, CacheAccount& caches,
                         PlanDraft& draft)
    : limits_(limits), caches_(caches), draft_(draft) {}

void PlanBuilder::Decode(Sequence& sequence) { AddRows(sequence, 1); }

void PlanBuilder::Prefill(std::span<Sequence* const> sequences) {
  if (sequences.empty()) return;
  const auto count = static_cast<int64_t>(sequences.size());
  int64_t left = std::min(limits_.prefill_chunk, limits_.step_tokens - rows_);
  // One row of logits each is set aside; what is over may score prompts.
  int64_t more_logits = PlanLimits(limits_).max_logit_rows -
                        static_cast<int64_t>(draft_.plan.sequences.size()) -
                        count;
  std::vector<int64_t> rows(count, 0);
  const auto give = [&](int64_t i, int64_t most) {
    const int64_t before = LogitRows(*sequences[i], rows[i]);
    const int64_t wanted =
        MostRows(*sequences[i], more_logits + std::max<int64_t>(0, before - 1));
    const int64_t given = std::min(most, wanted - rows[i]);
    rows[i] += given;
    left -= given;
    more_logits -= std::max<int64_t>(0, LogitRows(*sequences[i], rows[i]) - 1) -
                   std::max<int64_t>(0, before - 1);
  };
  give(0, CeilDivide(left, 2));
  std::vector<int64_t> others(count - 1);
  std::iota(others.begin(), others.end(), 1);
  std::stable_sort(others.begin(), others.end(), [&](int64_t a, int64_t b) {
    return sequences[a]->pending() < sequences[b]->pending();
  });
  for (const int64_t i : others) give(i, left);
  give(0, left);
  draft_.full = left == 0;
  for (int64_t i = 0; i < count; ++i)
    if (rows[i] > 0) AddRows(*sequences[i], rows[i]);
}

// Rows that a chunk of the sequence may have, with one row of logits and so
// many more.
int64_t PlanBuilder::MostRows(const Sequence& sequence,
                              int64_t more_logits) const {
  int64_t most =
      std::min(sequence.pending(),
               NextAnchor(sequence, sequence.past, limits_.snapshot_tokens) -
                   sequence.past);
  if (sequence.scoring()) {
    const int64_t unscored =
        std::max<int64_t>(0, sequence.rows_scored - sequence.past);
    most = std::min(most, unscored + 1 + more_logits);
  }
  return most;
}

// Rows of logits of the sequence's next `rows` rows.
int64_t PlanBuilder::LogitRows(const Sequence& sequence, int64_t rows) const {
  const int64_t end = sequence.past + rows;
  if (rows == 0) return 0;
  if (sequence.scoring())
    return std::max<int64_t>(
        0, end - std::max(sequence.past, sequence.rows_scored));
  return end == static_cast<int64_t>(sequence.tokens.size()) ? 1 : 0;
}

void PlanBuilder::AddRows(Sequence& sequence, int64_t rows) {
  const int64_t end = sequence.past + rows;
  CHECK(caches_.Extend(sequence, end));
  const int64_t logit_rows = LogitRows(sequence, rows);
  const auto tokens = sequence.tokens.begin();
  const auto blocks = sequence.blocks.begin();
  draft_.plan.sequences.push_back(
      {.state_slot = sequence.state_slot,
       .past = sequence.past,
       .token_ids = {tokens + sequence.past, tokens + end},
       .block_table = {blocks, blocks + CeilDivide(end, limits_.block_tokens)},
       .logit_rows = logit_rows});
  draft_.sequences.push_back(&sequence);
  rows_ += rows;
  sequence.in_plan = true;
  AddSamples(sequence, end, logit_rows);
  if (end == NextAnchor(sequence, end - 1, limits_.snapshot_tokens))
    caches_.Save(sequence, end, draft_.plan);
}

// What is asked of the last `count` rows before `end`.
void PlanBuilder::AddSamples(const Sequence& sequence, int64_t end,
                             int64_t count) {
  const Request& request = sequence.request;
  const std::span<const int32_t> tokens = sequence.tokens;
  std::span<const int32_t> too_early;
  if (sequence.generated() < request.min_tokens) too_early = request.stop_ids;
  for (int64_t next = end - count + 1; next <= end; ++next) {
    // The row before a token gives its probability, or draws it.
    const bool known = next < static_cast<int64_t>(tokens.size());
    draft_.samples.push_back(
        {.sampling = &request.sampling,
         .context = tokens.first(next),
         .prompt_tokens = sequence.prompt_tokens,
         .held_back = too_early,
         .logprobs = known || request.logprobs,
         .top_n = request.top_n,
         .given = known ? std::optional<int32_t>(tokens[next]) : std::nullopt});
  }
}

}  // namespace phalanx
