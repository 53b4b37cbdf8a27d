// The scheduler under thousands of random events. After each step these hold:
//
//   1. No KV block is owned twice, and none is lost: the blocks of the running
//      sequences are those that the pool counts as used.
//   2. The same of state slots.
//   3. Every request ends exactly once, and nothing is told to it afterwards.
//   4. Its tokens come in order, without gaps: each is the one that a fake
//      model makes of the tokens before it, whatever ran beside it; so they
//      equal those that it would get alone.
//   5. A plan holds at most step_tokens rows and prefill_chunk of a sequence,
//      and every rank would accept its bytes.
//   6. At most max_running sequences run, and at most max_running + max_waiting
//      are active.
//   7. Requests of one priority are admitted in order of arrival.
//   8. Something runs as long as something is active.
//
// PHALANX_TEST_SEED picks another world; a failure prints the seed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/scheduler/recording_sink.h"
#include "worker/scheduler/scheduler.h"

namespace phalanx {
namespace {

constexpr int kWorlds = 8;
constexpr int kStepsPerWorld = 3000;
constexpr int32_t kVocabSize = 50;

uint64_t BaseSeed() {
  const char* text = std::getenv("PHALANX_TEST_SEED");
  return text == nullptr ? 20261129 : std::strtoull(text, nullptr, 10);
}

// The fake model: the next token is a hash of all tokens before it. As a
// running hash it is also the fake's state of a sequence.
class PrefixHash {
 public:
  void Add(int32_t token) {
    hash_ = (hash_ ^ static_cast<uint64_t>(token + 1)) * 0x100000001b3;
    ++length_;
  }
  // A function of the prefix and of how it is sampled, like the real thing.
  int32_t Next(uint64_t seed) const {
    return static_cast<int32_t>((hash_ ^ seed * 0x9e3779b97f4a7c15) >> 33) %
           kVocabSize;
  }
  int64_t length() const { return length_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
  int64_t length_ = 0;
};

// What a request would get if it were alone in the world.
std::vector<int32_t> AloneIds(const Request& request,
                              const SchedulerLimits& limits) {
  PrefixHash hash;
  for (const int32_t id : request.prompt_ids) hash.Add(id);
  for (const int32_t id : request.emitted_ids) hash.Add(id);
  const auto is_stop = [&](int32_t id) {
    return std::count(request.stop_ids.begin(), request.stop_ids.end(), id) > 0;
  };
  std::vector<int32_t> ids;
  if (!request.emitted_ids.empty() && is_stop(request.emitted_ids.back()))
    return ids;
  while (hash.length() < MaxTotalTokens(request, limits)) {
    ids.push_back(hash.Next(request.sampling.seed));
    hash.Add(ids.back());
    if (is_stop(ids.back())) break;
  }
  return ids;
}

struct Client {
  Request request;
  RecordingSink sink;
  int64_t arrival = 0;
  bool cancelled = false;
  bool failed = false;  // Its sampling was made to fail.
  bool closed = false;  // All were closed.
};

class World {
 public:
  explicit World(uint64_t seed) : random_(seed), limits_(RandomLimits()) {}
  ~World() {
    if (!testing::Test::HasFatalFailure()) return;
    scheduler_.CloseAll(absl::AbortedError("the test failed"));
  }

  void Run() {
    for (int step = 0; step < kStepsPerWorld; ++step) {
      ASSERT_NO_FATAL_FAILURE(Arrive());
      CancelSome();
      ASSERT_NO_FATAL_FAILURE(Step());
      ASSERT_NO_FATAL_FAILURE(CheckCounts());
      if (Chance(1000)) CloseAll();
      ForgetEnded();
    }
    while (scheduler_.counts().running + scheduler_.counts().waiting > 0)
      ASSERT_NO_FATAL_FAILURE(Step());
    ForgetEnded();
    EXPECT_TRUE(clients_.empty());
    EXPECT_EQ(scheduler_.counts().kv_blocks_used, 0);
    EXPECT_EQ(scheduler_.counts().state_slots_used, 0);
    EXPECT_GT(completed_, 50);
  }

 private:
  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool Chance(int64_t one_in) { return Between(1, one_in) == 1; }

  SchedulerLimits RandomLimits() {
    SchedulerLimits limits;
    limits.max_running = Between(1, 9);
    limits.max_waiting = Between(1, 12);
    limits.block_tokens = Between(1, 8);
    limits.max_model_len = Between(8, 80);
    limits.kv_blocks = Between(limits.max_model_len / limits.block_tokens + 1,
                               4 * limits.max_model_len / limits.block_tokens);
    limits.state_slots = limits.max_running + Between(0, 2);
    limits.prefill_chunk = Between(1, 24);
    limits.step_tokens = limits.max_running + Between(0, 30);
    limits.vocab_size = kVocabSize;
    return limits;
  }

  std::vector<int32_t> RandomIds(int64_t count) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids)
      id = static_cast<int32_t>(Between(0, kVocabSize - 1));
    return ids;
  }

  void Arrive() {
    // Bursts and lulls.
    if (Chance(200)) arrivals_one_in_ = Between(1, 12);
    for (int64_t i = Chance(50) ? 10 : 1; i > 0; --i) {
      if (!Chance(arrivals_one_in_)) continue;
      auto client = std::make_unique<Client>();
      Request& request = client->request;
      client->arrival = ++arrivals_;
      request.id = std::to_string(arrivals_);
      request.prompt_ids = RandomIds(Between(0, limits_.max_model_len));
      request.max_tokens = Between(0, limits_.max_model_len / 2);
      request.emitted_ids = RandomIds(Chance(3) ? Between(0, 4) : 0);
      request.stop_ids = RandomIds(Between(0, 2));
      request.sampling.seed = random_();
      request.priority = static_cast<int>(Between(0, kHighestPriority));
      clock_.Advance(0.001);

      const int64_t active =
          scheduler_.counts().running + scheduler_.counts().waiting;
      const absl::Status status = scheduler_.Submit(request, &client->sink);
      if (!ValidateRequest(request, limits_).ok()) {
        ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      } else if (active == limits_.max_running + limits_.max_waiting) {
        ASSERT_EQ(ReasonOf(status).word, "QUEUE_FULL");
      } else {
        ASSERT_OK(status);
        clients_[client->arrival] = std::move(client);
        continue;
      }
      ASSERT_EQ(client->sink.ends, 0);
    }
  }

  void CancelSome() {
    if (clients_.empty() || !Chance(20)) return;
    auto it = clients_.begin();
    std::advance(it, Between(0, static_cast<int64_t>(clients_.size()) - 1));
    Client& client = *it->second;
    if (client.sink.ends > 0) return;
    client.cancelled = true;
    if (Chance(2)) {
      client.sink.gone = true;
    } else {
      EXPECT_TRUE(scheduler_.Cancel(client.request.id));
    }
  }

  void Step() {
    const StepPlan plan = scheduler_.Plan();
    CheckAdmissions();
    const SchedulerCounts counts = scheduler_.counts();
    ASSERT_EQ(plan.sequences.empty(), counts.running + counts.waiting == 0);
    if (plan.sequences.empty()) return;
    ASSERT_NO_FATAL_FAILURE(CheckPlan(plan));

    // Runs the fake model; its states live in the slots, as the real ones do.
    std::vector<absl::StatusOr<Token>> sampled;
    for (const PlannedSequence& sequence : plan.sequences) {
      PrefixHash& state = states_[sequence.state_slot];
      if (sequence.past == 0) state = PrefixHash();
      ASSERT_EQ(state.length(), sequence.past);
      for (const int32_t id : sequence.token_ids) state.Add(id);
      if (sequence.logit_rows == 0) continue;
      const SampleSpec& spec = scheduler_.samples()[sampled.size()];
      ASSERT_EQ(spec.position, state.length());
      Token token;
      token.id = state.Next(spec.sampling.seed);
      sampled.push_back(token);
      if (!Chance(500)) continue;
      sampled.back() = absl::InternalError("made to fail");
      for (auto& [arrival, client] : clients_)
        client->failed |= client->request.sampling.seed == spec.sampling.seed;
    }
    ASSERT_EQ(sampled.size(), scheduler_.samples().size());
    scheduler_.Commit(plan, std::move(sampled));
  }

  void CheckPlan(const StepPlan& plan) {
    ASSERT_LE(plan.token_count(), limits_.step_tokens);
    ASSERT_EQ(plan.step, ++steps_);
    std::set<int32_t> slots, blocks;
    bool prefill_began = false;
    for (const PlannedSequence& sequence : plan.sequences) {
      const auto rows = static_cast<int64_t>(sequence.token_ids.size());
      ASSERT_LE(rows, limits_.prefill_chunk);
      prefill_began |= rows > 1;
      ASSERT_TRUE(rows == 1 || prefill_began);
      ASSERT_TRUE(slots.insert(sequence.state_slot).second);
      for (const int32_t block : sequence.block_table)
        ASSERT_TRUE(blocks.insert(block).second);
    }
    const SchedulerCounts counts = scheduler_.counts();
    ASSERT_LE(static_cast<int64_t>(slots.size()), counts.state_slots_used);
    ASSERT_LE(static_cast<int64_t>(blocks.size()), counts.kv_blocks_used);
    const absl::StatusOr<StepPlan> decoded =
        Decode(Encode(plan), PlanLimits(limits_));
    ASSERT_OK(decoded);
    ASSERT_EQ(*decoded, plan);
  }

  // What the pools count is what the running requests are entitled to.
  void CheckCounts() {
    int64_t blocks = 0, running = 0, waiting = 0;
    for (const auto& [arrival, client] : clients_) {
      if (client->sink.ends > 0) continue;
      if (!client->sink.admitted.has_value()) {
        ++waiting;
        continue;
      }
      ++running;
      blocks += (MaxTotalTokens(client->request, limits_) +
                 limits_.block_tokens - 1) /
                limits_.block_tokens;
    }
    const SchedulerCounts counts = scheduler_.counts();
    ASSERT_EQ(counts.running, running);
    ASSERT_EQ(counts.waiting, waiting);
    ASSERT_EQ(counts.kv_blocks_used, blocks);
    ASSERT_EQ(counts.state_slots_used, running);
    ASSERT_LE(counts.running, limits_.max_running);
    ASSERT_LE(running + waiting, limits_.max_running + limits_.max_waiting);
  }

  // Whoever waits came after all of its priority that were admitted.
  void CheckAdmissions() {
    std::map<int, int64_t> first_waiting;
    for (const auto& [arrival, client] : clients_) {
      if (client->sink.ends > 0) continue;
      const int priority = client->request.priority == 0
                               ? kNormalPriority
                               : client->request.priority;
      if (!client->sink.admitted.has_value()) {
        first_waiting.emplace(priority, arrival);
      } else {
        EXPECT_FALSE(first_waiting.contains(priority))
            << arrival << " overtook " << first_waiting[priority];
      }
    }
  }

  void CloseAll() {
    for (auto& [arrival, client] : clients_) client->closed = true;
    scheduler_.CloseAll(absl::UnavailableError("all closed"));
  }

  // Checks the whole story of each request that ended, and forgets it.
  void ForgetEnded() {
    std::erase_if(clients_, [&](const auto& entry) {
      const Client& client = *entry.second;
      const RecordingSink& sink = client.sink;
      if (sink.ends == 0) return false;
      EXPECT_EQ(sink.ends, 1);
      std::vector<int32_t> alone = AloneIds(client.request, limits_);
      if (sink.finished.has_value()) {
        EXPECT_EQ(sink.ids, alone);
        ++completed_;
        return true;
      }
      EXPECT_TRUE(client.cancelled || client.failed || client.closed)
          << sink.error;
      EXPECT_LE(sink.ids.size(), alone.size());
      alone.resize(std::min(alone.size(), sink.ids.size()));
      EXPECT_EQ(sink.ids, alone);
      return true;
    });
  }

  std::mt19937_64 random_;
  const SchedulerLimits limits_;
  ManualClock clock_;
  Scheduler scheduler_{limits_, /*epoch=*/1, clock_};
  std::map<int64_t, std::unique_ptr<Client>> clients_;  // By arrival.
  std::map<int32_t, PrefixHash> states_;                // By state slot.
  int64_t arrivals_one_in_ = 4;
  int64_t arrivals_ = 0;
  int64_t steps_ = 0;
  int64_t completed_ = 0;
};

class SchedulerSimulation : public testing::TestWithParam<int> {};

TEST_P(SchedulerSimulation, KeepsEveryInvariantAfterEachStep) {
  const uint64_t seed = BaseSeed() + static_cast<uint64_t>(GetParam());
  SCOPED_TRACE("PHALANX_TEST_SEED=" + std::to_string(seed));
  World world(seed);

  world.Run();
}

INSTANTIATE_TEST_SUITE_P(Worlds, SchedulerSimulation,
                         testing::Range(0, kWorlds));

}  // namespace
}  // namespace phalanx
