#ifndef PHALANX_TESTS_WORKER_SCHEDULER_SIMULATED_CLIENT_H_
#define PHALANX_TESTS_WORKER_SCHEDULER_SIMULATED_CLIENT_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/worker/scheduler/recording_sink.h"
#include "worker/scheduler/limits.h"
#include "worker/scheduler/request.h"

namespace phalanx {

// A request, and who waits for it. After a lost group it is submitted again to
// the next one: a new life, with a new sink.
struct SimulatedClient {
  Request request;               // Of the present life.
  std::vector<int32_t> emitted;  // In earlier lives.
  std::unique_ptr<RecordingSink> sink;
  int64_t arrival = 0;           // Of the present life, and for ever its seed.
  double submitted_seconds = 0;  // Of the present life.
  bool was_full = false;         // Ever in this life.
  // What was made to happen to it.
  bool cancelled = false;
  bool failed = false;

  // As the plan before saw it.
  bool was_admitted = false;
  int was_preempted = 0;
  bool decoding = false;  // Has made a token since its last admission.

  int priority() const {
    return request.priority == 0 ? kNormalPriority : request.priority;
  }
  bool running() const { return sink->admitted.has_value(); }
};

// Makes requests of all kinds, from a seed.
class RequestMaker {
 public:
  RequestMaker(std::mt19937_64& random, const SchedulerLimits& limits);

  // The choices of one request, at least one; `arrivals` is raised by one for
  // each and makes its seed.
  std::vector<Request> Make(int64_t& arrivals);

  // Whether requests begin with the same tokens here. Where they do not, nobody
  // ever waits for another's prefix.
  bool shares_prefixes() const { return !roots_.empty(); }

 private:
  int64_t Between(int64_t low, int64_t high);
  bool Chance(int64_t one_in) { return Between(1, one_in) == 1; }
  std::vector<int32_t> Ids(int64_t count);
  std::vector<int32_t> Prompt(Request& request);
  double Seconds(int64_t one_in, int64_t most_ms);

  std::mt19937_64& random_;
  const SchedulerLimits limits_;
  std::vector<std::vector<int32_t>> roots_;  // What prompts begin with.
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_SCHEDULER_SIMULATED_CLIENT_H_
