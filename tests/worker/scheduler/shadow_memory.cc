#include "tests/worker/scheduler/shadow_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace phalanx {
namespace {

// What memory holds that nobody has written.
constexpr PrefixState kRubbish = {.hash = 1, .length = -1};

}  // namespace

ShadowMemory::ShadowMemory(const SchedulerLimits& limits)
    : limits_(limits),
      rows_(limits.kv_blocks * limits.block_tokens,
            {.before = kRubbish, .after = kRubbish}),
      slots_(limits.state_slots, kRubbish) {}

std::vector<PrefixState> ShadowMemory::Run(const StepPlan& plan) {
  const int64_t bt = limits_.block_tokens;
  for (const CacheCopy& copy : plan.block_copies)
    std::copy_n(rows_.begin() + copy.from * bt, bt,
                rows_.begin() + copy.to * bt);
  for (const CacheCopy& copy : plan.state_restores)
    slots_[copy.to] = slots_[copy.from];
  CheckWriters(plan);
  std::vector<PrefixState> logits;
  for (const PlannedSequence& sequence : plan.sequences) {
    PrefixState& state = slots_[sequence.state_slot];
    if (sequence.past == 0) state = PrefixState();
    CheckPast(sequence, state);
    const int64_t end =
        sequence.past + static_cast<int64_t>(sequence.token_ids.size());
    for (const int32_t id : sequence.token_ids) {
      KvRow& row = Row(sequence, state.length);
      row.before = state;
      state.Add(id);
      row.after = state;
      if (state.length > end - sequence.logit_rows) logits.push_back(state);
    }
  }
  for (const CacheCopy& copy : plan.state_saves)
    slots_[copy.to] = slots_[copy.from];
  return logits;
}

ShadowMemory::KvRow& ShadowMemory::Row(const PlannedSequence& sequence,
                                       int64_t position) {
  return rows_[sequence.block_table[position / limits_.block_tokens] *
                   limits_.block_tokens +
               position % limits_.block_tokens];
}

// The rows before are those of one chain of tokens, and the state is at its
// end.
void ShadowMemory::CheckPast(const PlannedSequence& sequence,
                             const PrefixState& state) {
  ASSERT_EQ(state.length, sequence.past);
  PrefixState expected;
  for (int64_t position = 0; position < sequence.past; ++position) {
    const KvRow& row = Row(sequence, position);
    ASSERT_EQ(row.before, expected) << "row " << position;
    expected = row.after;
  }
  ASSERT_EQ(state, expected);
}

// Nobody writes into a block that another sequence of the plan reads or writes,
// and no state is another's.
void ShadowMemory::CheckWriters(const StepPlan& plan) const {
  std::map<int32_t, int> users;
  std::set<int32_t> slots;
  for (const PlannedSequence& sequence : plan.sequences) {
    ASSERT_TRUE(slots.insert(sequence.state_slot).second);
    for (const int32_t block : sequence.block_table) ++users[block];
  }
  for (const PlannedSequence& sequence : plan.sequences) {
    for (size_t i = sequence.past / limits_.block_tokens;
         i < sequence.block_table.size(); ++i)
      ASSERT_EQ(users[sequence.block_table[i]], 1);
  }
  for (const CacheCopy& copy : plan.state_saves)
    ASSERT_TRUE(slots.insert(copy.to).second);
}

}  // namespace phalanx
