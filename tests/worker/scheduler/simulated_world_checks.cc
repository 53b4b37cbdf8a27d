#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/scheduler/simulated_world.h"

namespace phalanx {

void SimulatedWorld::CheckPlan(const StepPlan& plan) {
  ASSERT_NO_FATAL_FAILURE(CheckNobodyIsLate());
  ASSERT_NO_FATAL_FAILURE(CheckTrial(plan));
  ASSERT_NO_FATAL_FAILURE(CheckAdmissions());
  ASSERT_NO_FATAL_FAILURE(CheckPreemptions());
  if (plan.sequences.empty()) {
    // Only those that nobody reads, and trials, may keep all from running.
    bool could_run = false, unread = false;
    for (const auto& [arrival, client] : clients_) {
      could_run |= client->sink->ends == 0 && !client->request.suspect;
      unread |= client->sink->unread;
    }
    ASSERT_TRUE(unread || !could_run);
    ASSERT_TRUE(plan.block_copies.empty() && plan.state_restores.empty() &&
                plan.state_saves.empty());
    return;
  }
  ASSERT_EQ(plan.step, ++epoch_steps_);
  ASSERT_NO_FATAL_FAILURE(CheckRows(plan));
  const absl::StatusOr<StepPlan> decoded =
      Decode(Encode(plan), PlanLimits(limits_));
  ASSERT_OK(decoded);
  ASSERT_EQ(*decoded, plan);
}

void SimulatedWorld::CheckRows(const StepPlan& plan) {
  ASSERT_LE(plan.token_count(), limits_.step_tokens);
  ASSERT_LE(plan.logits_count(), PlanLimits(limits_).max_logit_rows);
  ASSERT_EQ(plan.logits_count(),
            static_cast<int64_t>(scheduler_->samples().size()));
  int64_t decode_rows = 0;
  for (const SampleSpec& spec : scheduler_->samples())
    if (const SimulatedClient& client = *BySeed(spec.sampling->seed);
        !spec.given.has_value() && (client.decoding || client.was_full))
      ++decode_rows;
  ASSERT_LE(plan.token_count() - decode_rows, limits_.prefill_chunk);
}

void SimulatedWorld::CheckTrial(const StepPlan& plan) {
  int64_t told = 0;
  bool tried = false;
  for (const auto& [arrival, client] : clients_) {
    const RecordingSink& sink = *client->sink;
    ASSERT_LE(sink.trials, client->request.suspect ? 1 : 0);
    if (sink.ends > 0 || sink.trials == 0 || !sink.ids.empty()) continue;
    ++told;
    tried |= client->running();
    ASSERT_TRUE(!client->running() || sink.known);
  }
  ASSERT_LE(told, 1);
  if (tried) {
    ASSERT_EQ(plan.sequences.size(), 1u);
    return;
  }
  // Whoever decodes and is read has its row.
  std::map<uint64_t, int> rows;
  for (const SampleSpec& spec : scheduler_->samples())
    ++rows[spec.sampling->seed];
  for (const auto& [arrival, client] : clients_) {
    if (client->sink->ends > 0 || client->sink->unread ||
        client->sink->preemptions > client->was_preempted)
      continue;
    if (client->decoding) {
      ASSERT_EQ(rows[client->request.sampling.seed], 1) << arrival;
    }
  }
}

// Among requests of one key, nobody passes one whose own priority, with what it
// gained by waiting, is higher, or as high where that one came first.
void SimulatedWorld::CheckAdmissions() {
  if (maker_.shares_prefixes() || scheduler_->counts().preempted_for_priority >
                                      before_.preempted_for_priority)
    return;
  const auto effective = [&](const SimulatedClient& client) {
    const double levels = Age(client) / limits_.ageing_seconds;
    return std::min(static_cast<double>(kHighestPriority),
                    client.priority() + std::floor(levels));
  };
  for (const auto& [arrival, admitted] : clients_) {
    if (!admitted->running() || admitted->was_admitted || admitted->was_full ||
        admitted->request.suspect)
      continue;
    for (const auto& [other_arrival, other] : clients_) {
      if (other->sink->ends > 0 || other->running() || MayStepAside(*other) ||
          other->request.key != admitted->request.key)
        continue;
      ASSERT_LE(effective(*other),
                effective(*admitted) - (other_arrival < arrival ? 1 : 0))
          << arrival << " passed " << other_arrival;
    }
  }
}

// Not read, on trial, or a choice that waits for its siblings' prefill.
bool SimulatedWorld::MayStepAside(const SimulatedClient& client) const {
  if (client.was_full || client.request.suspect) return true;
  return std::any_of(clients_.begin(), clients_.end(), [&](const auto& entry) {
    return entry.second.get() != &client &&
           entry.second->request.id == client.request.id;
  });
}

// Who loses its caches is of the lowest priority that ran, and does so at most
// kMaxPreemptions times.
void SimulatedWorld::CheckPreemptions() {
  for (const auto& [arrival, client] : clients_) {
    if (client->sink->preemptions == client->was_preempted) continue;
    ASSERT_LE(client->sink->preemptions, kMaxPreemptions);
    for (const auto& [other_arrival, other] : clients_)
      if (other->decoding && !other->was_full && other->sink->ends == 0 &&
          other->sink->preemptions == other->was_preempted &&
          other->sink->preemptions < kMaxPreemptions) {
        ASSERT_GE(other->priority(), client->priority())
            << other_arrival << " should have gone before " << arrival;
      }
  }
}

void SimulatedWorld::CheckNobodyIsLate() {
  for (const auto& [arrival, client] : clients_) {
    if (client->sink->ends > 0) continue;
    ASSERT_FALSE(client->cancelled);
    ASSERT_LT(Age(*client), client->request.timeout_seconds);
    ASSERT_LT(Age(*client), client->request.max_time_seconds);
    if (!client->running() && client->emitted.empty() &&
        client->request.emitted_ids.empty()) {
      ASSERT_LT(Age(*client), limits_.max_wait_seconds);
    }
  }
}

void SimulatedWorld::CheckCounts() {
  int64_t active = 0, admitted = 0;
  for (const auto& [arrival, client] : clients_) {
    active += client->sink->ends == 0;
    admitted += client->sink->ends == 0 && client->running();
  }
  const SchedulerCounts counts = scheduler_->counts();
  ASSERT_EQ(counts.running + counts.waiting, active);
  ASSERT_LE(counts.running, std::min(admitted, limits_.max_running));
  ASSERT_LE(active, limits_.max_running + limits_.max_waiting);
  ASSERT_LE(counts.kv_blocks_used + counts.kv_blocks_reusable,
            counts.kv_blocks_total);
  ASSERT_LE(counts.state_slots_used + counts.state_slots_snapshot,
            counts.state_slots_total);
  ASSERT_GE(counts.state_slots_used, counts.running);
}

void SimulatedWorld::NoteWhatThePlanTold() {
  const SchedulerCounts counts = scheduler_->counts();
  tally_.preempted_for_kv += counts.preempted_for_kv - before_.preempted_for_kv;
  tally_.preempted_for_priority +=
      counts.preempted_for_priority - before_.preempted_for_priority;
  for (const auto& [arrival, client] : clients_) {
    const RecordingSink& sink = *client->sink;
    if (client->running() && !client->was_admitted) {
      tally_.trials += sink.trials;
      tally_.hits += sink.cached > 0;
      const bool takes = !client->request.cache.bypass &&
                         (!client->request.prompt_logprobs ||
                          !client->request.emitted_ids.empty());
      EXPECT_TRUE(sink.cached == 0 || takes);
      EXPECT_LT(sink.cached,
                static_cast<int64_t>(client->request.prompt_ids.size() +
                                     client->request.emitted_ids.size()));
    }
    client->was_admitted = client->running();
    if (sink.preemptions > client->was_preempted || sink.unread)
      client->decoding = false;
    client->was_preempted = sink.preemptions;
  }
}

SimulatedClient* SimulatedWorld::BySeed(uint64_t seed) {
  return by_seed_.at(seed);
}

// Checks the whole story of each request that ended, and forgets it.
void SimulatedWorld::ForgetEnded() {
  std::erase_if(clients_, [&](const auto& entry) {
    const SimulatedClient& client = *entry.second;
    if (client.sink->ends == 0) return false;
    if (absl::StartsWith(client.sink->error.message(), "lost")) return false;
    CheckEnd(client);
    by_seed_.erase(client.request.sampling.seed);
    return true;
  });
}

void SimulatedWorld::CheckEnd(const SimulatedClient& client) {
  const RecordingSink& sink = *client.sink;
  EXPECT_EQ(sink.ends, 1);
  std::vector<int32_t> alone = AloneIds(client.request, limits_);
  std::vector<Token> prompt = AlonePrompt(client.request, limits_);
  EXPECT_LE(sink.ids.size(), alone.size());
  EXPECT_LE(sink.prompt.size(), prompt.size());
  if (!sink.ids.empty()) {
    EXPECT_EQ(sink.prompt.size(), prompt.size());
  }
  if (sink.finished == FinishReason::kTimeLimit) {
    EXPECT_GE(Age(client), client.request.max_time_seconds);
  } else if (sink.finished.has_value()) {
    EXPECT_EQ(sink.ids.size(), alone.size());
    EXPECT_EQ(sink.prompt.size(), prompt.size());
    ++tally_.completed;
  } else {
    CheckError(client);
  }
  if (sink.finished.has_value()) ++tally_.finished[*sink.finished];
  tally_.prompts_scored += !prompt.empty() && sink.prompt == prompt;
  // As far as it came, it got what it would have got alone.
  alone.resize(std::min(alone.size(), sink.ids.size()));
  prompt.resize(std::min(prompt.size(), sink.prompt.size()));
  EXPECT_EQ(sink.ids, alone);
  EXPECT_EQ(sink.prompt, prompt);
}

void SimulatedWorld::CheckError(const SimulatedClient& client) {
  const std::string reason = ReasonOf(client.sink->error).word;
  ++tally_.errors[reason];
  if (reason == "CLIENT") {
    EXPECT_TRUE(client.cancelled);
  } else if (reason == "NON_FINITE_LOGITS") {
    EXPECT_TRUE(client.failed);
  } else if (reason == "QUEUE_TIMEOUT") {
    EXPECT_GE(Age(client), limits_.max_wait_seconds);
    EXPECT_FALSE(client.running());
  } else if (reason == "SLOW_READER") {
    EXPECT_TRUE(client.sink->unread);
  } else {
    EXPECT_THAT(reason, testing::AnyOf("IN_QUEUE", "IN_PREFILL", "IN_DECODE"));
    EXPECT_GE(Age(client), client.request.timeout_seconds);
    if (reason == "IN_QUEUE") {
      EXPECT_FALSE(client.running());
    }
  }
}

}  // namespace phalanx
