#ifndef PHALANX_GATEWAY_CLI_BENCH_CLIENT_H_
#define PHALANX_GATEWAY_CLI_BENCH_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "gateway/cli/bench_record.h"
#include "gateway/cli/bench_workload.h"
#include "inference.grpc.pb.h"

namespace phalanx {

// How requests of a run follow each other.
struct BenchLoad {
  // Requests per second of an open loop: they come whether or not the earlier
  // ones have ended. Unset: a closed loop, the next one comes as one ends.
  std::optional<double> rate;
  int64_t concurrency = 1;  // At most so many at once, in either loop.
  int64_t requests = std::numeric_limits<int64_t>::max();
  double duration_seconds = std::numeric_limits<double>::infinity();
};

// What all requests of a run have in common.
struct BenchSettings {
  std::optional<double> temperature;  // Unset: the service's own.
  bool ignore_eos = true;
  double timeout_seconds = 600;
};

struct BenchProgress {
  double seconds = 0;
  int64_t started = 0;
  int64_t running = 0;
  int64_t ended = 0;
  int64_t failed = 0;
  int64_t tokens = 0;
};

// Sends the requests of a workload and gathers what comes back. Streams live on
// gRPC's threads, thousands of them on a few; the caller's thread paces them.
//
// Run is called by one thread, any number of times; Stop by any other.
class BenchClient {
 public:
  using OnProgress = std::function<void(const BenchProgress&)>;

  // All are lent and outlive the client.
  BenchClient(v1::Inference::Stub& stub, const Clock& clock,
              const BenchWorkload& workload, const BenchSettings& settings);

  // Returns once every stream has ended. `first_index`: of its first request in
  // the workload; `seed`: of the arrivals. Calls `on_progress` about ten times
  // a second.
  BenchRecord Run(const BenchLoad& load, int64_t first_index, uint64_t seed,
                  const OnProgress& on_progress);

  // No more requests; those under way are cancelled. Stays so.
  void Stop();
  bool stopped();

 private:
  class Stream;

  class CancelCall;

  void Start(int64_t index, double due_seconds);
  v1::GenerateRequest RequestOf(const BenchRequest& request,
                                int64_t index) const;
  // Waits until `ready` (asked with the mutex held) or `end_seconds`, and shows
  // progress meanwhile.
  template <typename Ready>
  void WaitUntil(Ready ready, double end_seconds,
                 const OnProgress& on_progress);
  void OnTokens(int64_t count);
  void OnEnd(int64_t index, BenchSample sample);
  void Cancel(const std::string& request_id);
  void OnCancelDone(const absl::Status& status);

  v1::Inference::Stub& stub_;
  const Clock& clock_;
  const BenchWorkload& workload_;
  const BenchSettings settings_;
  const std::string id_;  // No other run has it; requests are named after it.

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  BenchProgress progress_ ABSL_GUARDED_BY(mutex_);
  BenchRecord record_ ABSL_GUARDED_BY(mutex_);
  // Of the streams that run, by index; shared with them, so that Stop may
  // cancel one that just ends.
  std::map<int64_t, std::shared_ptr<grpc::ClientContext>> contexts_
      ABSL_GUARDED_BY(mutex_);
  int64_t cancels_ ABSL_GUARDED_BY(mutex_) = 0;  // Calls under way.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_BENCH_CLIENT_H_
