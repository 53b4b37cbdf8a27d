// The scheduler and its caches under random events: arrivals of all kinds,
// cancels, slow readers, deadlines, pre-emption, suspects, broken logits, lost
// groups. After each step these hold:
//
//    1. Every row is computed on the KV and the state of just the tokens before
//       it, whatever was shared, copied, given up or replayed (ShadowMemory).
//    2. Nobody writes a block that another sequence of the plan uses, and no
//       state slot has two users.
//    3. Every request ends exactly once, for a reason that was given, and
//       nothing is told to it afterwards.
//    4. Its tokens come in order, none twice, none missing: those that it would
//       get alone, also across pre-emptions and lost groups. So do the
//       log-probabilities of its prompt.
//    5. A plan obeys PlanLimits, and every rank would accept its bytes; its
//       rows of prompts are at most prefill_chunk together.
//    6. Who decodes and is read has a row in every plan, unless a suspect is
//       tried.
//    7. At most one suspect is told of its trial and not past it; it has no row
//       before its reader knows, and nothing runs beside it.
//    8. At most max_running sequences run, at most max_running + max_waiting
//       are active, and the counts of both pools are within their totals.
//    9. What was promised to running sequences can be had: CacheAccount checks
//       it in every build.
//   10. Among requests of a key, nobody passes one of a higher priority, ageing
//       included, nor an earlier one of the same; so waiting is bounded.
//   11. Who is pre-empted has the lowest priority of those that may be, and is
//       so at most kMaxPreemptions times.
//   12. Who is cancelled, or past a deadline, has its end after the next plan.
//   13. Something runs unless readers or trials stop all; and when these do no
//       more, all come to their end in bounded time.
//   14. When all have ended, nobody holds a block or a slot.
//
// PHALANX_TEST_SEED picks other worlds, PHALANX_TEST_STEPS the steps of all
// worlds together; a failure prints the seed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/worker/scheduler/simulated_world.h"

namespace phalanx {
namespace {

constexpr int kWorlds = 40;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class SchedulerSimulation : public testing::TestWithParam<int> {};

TEST_P(SchedulerSimulation, KeepsEveryInvariantAfterEachStep) {
  const uint64_t seed = FromEnvironment("PHALANX_TEST_SEED", 20261130) +
                        static_cast<uint64_t>(GetParam());
  const auto steps =
      static_cast<int64_t>(FromEnvironment("PHALANX_TEST_STEPS", 400'000));
  SCOPED_TRACE("PHALANX_TEST_SEED=" + std::to_string(seed));
  SimulatedWorld world(seed);

  world.Run(steps / kWorlds);
}

INSTANTIATE_TEST_SUITE_P(Worlds, SchedulerSimulation,
                         testing::Range(0, kWorlds));

// Else the invariants would hold of nothing.
TEST(SimulatedWorld, SeesEveryKindOfEvent) {
  WorldTally all;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SimulatedWorld world(seed);
    world.Run(4000);
    const WorldTally& tally = world.tally();
    all.completed += tally.completed;
    all.hits += tally.hits;
    all.preempted_for_kv += tally.preempted_for_kv;
    all.preempted_for_priority += tally.preempted_for_priority;
    all.trials += tally.trials;
    all.prompts_scored += tally.prompts_scored;
    all.groups_lost += tally.groups_lost;
    for (const auto& [reason, count] : tally.errors)
      all.errors[reason] += count;
    for (const auto& [reason, count] : tally.finished)
      all.finished[reason] += count;
  }

  EXPECT_GT(all.completed, 1000);
  EXPECT_GT(all.hits, 100);
  EXPECT_GT(all.preempted_for_kv, 50);
  EXPECT_GT(all.preempted_for_priority, 100);
  EXPECT_GT(all.trials, 50);
  EXPECT_GT(all.prompts_scored, 50);
  EXPECT_GT(all.groups_lost, 5);
  for (const char* reason :
       {"CLIENT", "NON_FINITE_LOGITS", "IN_QUEUE", "IN_PREFILL", "IN_DECODE",
        "QUEUE_TIMEOUT", "SLOW_READER"})
    EXPECT_GT(all.errors[reason], 2) << reason;
  for (const FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kTimeLimit})
    EXPECT_GT(all.finished[reason], 20);
}

}  // namespace
}  // namespace phalanx
