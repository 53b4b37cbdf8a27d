#ifndef PHALANX_TESTS_WORKER_SCHEDULER_SIMULATED_WORLD_H_
#define PHALANX_TESTS_WORKER_SCHEDULER_SIMULATED_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/worker/scheduler/shadow_memory.h"
#include "tests/worker/scheduler/simulated_client.h"
#include "worker/scheduler/scheduler.h"

namespace phalanx {

// How often things happened, so that a test can tell that they did.
struct WorldTally {
  int64_t steps = 0;
  int64_t completed = 0;
  int64_t hits = 0;
  int64_t preempted_for_kv = 0;
  int64_t preempted_for_priority = 0;
  int64_t trials = 0;
  int64_t prompts_scored = 0;
  int64_t groups_lost = 0;
  std::map<std::string, int64_t> errors;  // By reason.
  std::map<FinishReason, int64_t> finished;
};

// A scheduler, its memory and its clients, under random events from a seed. The
// invariants that scheduler_simulation_test.cc lists are checked after each
// step, as failures of the test that runs it.
class SimulatedWorld {
 public:
  explicit SimulatedWorld(uint64_t seed);
  ~SimulatedWorld();

  // Runs so many steps, then until all have their end.
  void Run(int64_t steps);

  const WorldTally& tally() const { return tally_; }

 private:
  // simulated_world.cc: what happens.
  int64_t Between(int64_t low, int64_t high);
  bool Chance(int64_t one_in) { return Between(1, one_in) == 1; }
  SchedulerLimits RandomLimits();
  void Arrive();
  void Submit(std::unique_ptr<SimulatedClient> client);
  void Disturb();
  void Cancel(SimulatedClient& client);
  void Step();
  void Commit(const StepPlan& plan);
  void LoseGroup();
  void Drain();

  // simulated_world_checks.cc: what must hold.
  void CheckPlan(const StepPlan& plan);
  void CheckRows(const StepPlan& plan);
  void CheckTrial(const StepPlan& plan);
  void CheckAdmissions();
  bool MayStepAside(const SimulatedClient& client) const;
  void CheckPreemptions();
  void CheckNobodyIsLate();
  void CheckCounts();
  void NoteWhatThePlanTold();
  void ForgetEnded();
  void CheckEnd(const SimulatedClient& client);
  void CheckError(const SimulatedClient& client);
  SimulatedClient* BySeed(uint64_t seed);
  double Age(const SimulatedClient& client) const {
    return clock_.now_seconds() - client.submitted_seconds;
  }

  std::mt19937_64 random_;
  const SchedulerLimits limits_;
  RequestMaker maker_;
  ManualClock clock_;
  uint64_t epoch_ = 1;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ShadowMemory> memory_;
  std::map<int64_t, std::unique_ptr<SimulatedClient>> clients_;  // By arrival.
  std::map<uint64_t, SimulatedClient*> by_seed_;
  SchedulerCounts before_;  // The plan.
  int64_t arrivals_one_in_ = 4;
  int64_t arrivals_ = 0;
  int64_t epoch_steps_ = 0;
  WorldTally tally_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_SCHEDULER_SIMULATED_WORLD_H_
