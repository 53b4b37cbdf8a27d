#include "tests/worker/scheduler/simulated_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "common/reason.h"
#include "tests/support/status_matchers.h"

namespace phalanx {

SimulatedWorld::SimulatedWorld(uint64_t seed)
    : random_(seed), limits_(RandomLimits()), maker_(random_, limits_) {
  scheduler_ = std::make_unique<Scheduler>(limits_, epoch_, clock_);
  memory_ = std::make_unique<ShadowMemory>(limits_);
}

SimulatedWorld::~SimulatedWorld() {
  scheduler_->CloseAll(absl::AbortedError("the test is over"));
}

void SimulatedWorld::Run(int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    ASSERT_NO_FATAL_FAILURE(Arrive());
    Disturb();
    ASSERT_NO_FATAL_FAILURE(Step());
    ForgetEnded();
  }
  ASSERT_NO_FATAL_FAILURE(Drain());
}

int64_t SimulatedWorld::Between(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

SchedulerLimits SimulatedWorld::RandomLimits() {
  SchedulerLimits limits;
  // Small worlds are quick and full of edges; in larger ones anchors are far
  // enough apart to be waited for.
  const bool large = Chance(2);
  limits.max_running = Between(1, 9);
  limits.max_waiting = Between(1, 12);
  limits.block_tokens = large ? Between(8, 64) : Between(1, 8);
  limits.max_model_len = large ? Between(200, 700) : Between(8, 80);
  const int64_t most_blocks = limits.max_model_len / limits.block_tokens + 1;
  limits.kv_blocks = Between(most_blocks, 2 * most_blocks);
  limits.state_slots = limits.max_running + Between(0, 12);
  limits.prefill_chunk = large ? Between(8, 200) : Between(1, 24);
  limits.step_tokens = limits.max_running + Between(0, limits.prefill_chunk);
  limits.vocab_size = 50;
  limits.logit_rows = Chance(2) ? 0 : limits.max_running + Between(0, 40);
  limits.snapshot_tokens = large ? Between(64, 300) : Between(4, 40);
  limits.ageing_seconds = 0.3;
  if (Chance(2)) limits.max_wait_seconds = 2;
  limits.park_seconds = 0.2;
  limits.slow_reader_seconds = 1.5;
  return limits;
}

void SimulatedWorld::Arrive() {
  // Bursts and lulls.
  if (Chance(200)) arrivals_one_in_ = Between(1, 30);
  for (int64_t i = Chance(50) ? 10 : 1; i > 0; --i) {
    if (!Chance(arrivals_one_in_)) continue;
    for (Request& request : maker_.Make(arrivals_)) {
      auto client = std::make_unique<SimulatedClient>();
      client->arrival = static_cast<int64_t>(request.sampling.seed);
      client->request = std::move(request);
      ASSERT_NO_FATAL_FAILURE(Submit(std::move(client)));
    }
  }
}

void SimulatedWorld::Submit(std::unique_ptr<SimulatedClient> client) {
  client->sink = std::make_unique<RecordingSink>();
  client->sink->known = !client->request.suspect;
  client->submitted_seconds = clock_.now_seconds();
  const SchedulerCounts counts = scheduler_->counts();
  const absl::Status status =
      scheduler_->Submit(client->request, client->sink.get());
  const std::string reason = ReasonOf(status).word;
  if (!ValidateRequest(client->request, limits_).ok()) {
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  } else if (counts.running + counts.waiting ==
             limits_.max_running + limits_.max_waiting) {
    ASSERT_EQ(reason, "QUEUE_FULL");
  } else if (!status.ok()) {
    ASSERT_EQ(reason, "DEADLINE_UNMEETABLE");
    ASSERT_LT(client->request.timeout_seconds, 1e9);
    ++tally_.errors[reason];
  } else {
    by_seed_[client->request.sampling.seed] = client.get();
    clients_[client->arrival] = std::move(client);
    return;
  }
  ASSERT_EQ(client->sink->ends, 0);
}

// Clients leave, fall behind, catch up, hear of their trial; time passes.
void SimulatedWorld::Disturb() {
  clock_.Advance(static_cast<double>(Between(1, Chance(300) ? 2000 : 20)) /
                 1e3);
  for (const auto& [arrival, client] : clients_) {
    RecordingSink& sink = *client->sink;
    if (Chance(400)) Cancel(*client);
    if (sink.trials > 0 && Chance(4)) sink.known = true;
    if (sink.unread ? Chance(20) : Chance(300)) {
      sink.unread = !sink.unread;
      client->was_full = true;
    }
  }
}

void SimulatedWorld::Cancel(SimulatedClient& client) {
  client.cancelled = true;
  if (Chance(2)) {
    client.sink->gone = true;
    return;
  }
  if (client.sink->ends == 0) {
    EXPECT_TRUE(scheduler_->Cancel(client.request.id));
  }
  for (const auto& [arrival, other] : clients_)
    other->cancelled |= other->request.id == client.request.id;
}

void SimulatedWorld::Step() {
  before_ = scheduler_->counts();
  const StepPlan plan = scheduler_->Plan();
  ASSERT_NO_FATAL_FAILURE(CheckPlan(plan));
  ASSERT_NO_FATAL_FAILURE(CheckCounts());
  NoteWhatThePlanTold();
  ++tally_.steps;
  if (Chance(2000)) return LoseGroup();
  if (!plan.sequences.empty()) Commit(plan);
}

void SimulatedWorld::Commit(const StepPlan& plan) {
  const std::vector<PrefixState> rows = memory_->Run(plan);
  ASSERT_EQ(rows.size(), scheduler_->samples().size());
  std::vector<absl::StatusOr<Token>> sampled;
  for (size_t i = 0; i < rows.size(); ++i) {
    const SampleSpec& spec = scheduler_->samples()[i];
    // The row is of just these tokens: whatever was copied, shared or given up.
    ASSERT_EQ(rows[i], StateOf(spec.context));
    sampled.push_back(FakeSample(rows[i], spec, limits_.vocab_size));
    if (!Chance(2000)) continue;
    sampled.back() = ReasonedError(absl::StatusCode::kInternal,
                                   "NON_FINITE_LOGITS", "made to fail");
    BySeed(spec.sampling->seed)->failed = true;
  }
  std::map<SimulatedClient*, size_t> ids;
  for (const auto& [arrival, client] : clients_)
    ids[client.get()] = client->sink->ids.size();
  scheduler_->Commit(plan, std::move(sampled));
  for (const auto& [client, count] : ids)
    client->decoding |= client->sink->ids.size() > count;
}

// All are told, and come back to the next group with what they have; those that
// were in the step are suspects there.
void SimulatedWorld::LoseGroup() {
  ++tally_.groups_lost;
  scheduler_->CloseAll(absl::UnavailableError("lost"),
                       absl::UnavailableError("lost in the step"));
  ForgetEnded();
  scheduler_ = std::make_unique<Scheduler>(limits_, ++epoch_, clock_);
  memory_ = std::make_unique<ShadowMemory>(limits_);
  epoch_steps_ = 0;
  auto clients = std::exchange(clients_, {});
  by_seed_.clear();
  for (auto& [arrival, client] : clients) {
    const std::vector<int32_t>& ids = client->sink->ids;
    client->request.emitted_ids.insert(client->request.emitted_ids.end(),
                                       ids.begin(), ids.end());
    client->emitted = client->request.emitted_ids;
    client->request.suspect =
        client->sink->error.message() == "lost in the step";
    client->arrival = ++arrivals_;
    client->was_full = client->was_admitted = client->decoding = false;
    client->was_preempted = 0;
    ASSERT_NO_FATAL_FAILURE(Submit(std::move(client)));
  }
}

// Everybody reads and knows: all come to their end in bounded time.
void SimulatedWorld::Drain() {
  const int64_t most =
      40 * limits_.max_model_len * (limits_.max_running + limits_.max_waiting);
  for (int64_t step = 0;
       scheduler_->counts().running + scheduler_->counts().waiting > 0;
       ++step) {
    ASSERT_LT(step, most);
    for (const auto& [arrival, client] : clients_) {
      client->sink->unread = false;
      client->sink->known = true;
    }
    clock_.Advance(0.005);
    ASSERT_NO_FATAL_FAILURE(Step());
    ForgetEnded();
  }
  ForgetEnded();
  EXPECT_TRUE(clients_.empty());
  EXPECT_EQ(scheduler_->counts().kv_blocks_used, 0);
  EXPECT_EQ(scheduler_->counts().state_slots_used, 0);
}

}  // namespace phalanx
