#include "gateway/metrics/worker_calls.h"

#include <algorithm>
#include <vector>

namespace phalanx {
namespace {

constexpr MetricFacts kSeconds = {
    "phalanx_worker_rpc_duration_seconds",
    "Calls of this gateway to workers, streams as a whole, by their end."};

constexpr std::array<const char*, 2> kMethods = {"generate", "get_status"};

struct Code {
  absl::StatusCode code;
  const char* name;
};
// What a worker or a transport may answer; the rest is `other`.
constexpr std::array<Code, 9> kNamed = {
    {{absl::StatusCode::kOk, "OK"},
     {absl::StatusCode::kCancelled, "CANCELLED"},
     {absl::StatusCode::kUnknown, "UNKNOWN"},
     {absl::StatusCode::kInvalidArgument, "INVALID_ARGUMENT"},
     {absl::StatusCode::kDeadlineExceeded, "DEADLINE_EXCEEDED"},
     {absl::StatusCode::kResourceExhausted, "RESOURCE_EXHAUSTED"},
     {absl::StatusCode::kFailedPrecondition, "FAILED_PRECONDITION"},
     {absl::StatusCode::kInternal, "INTERNAL"},
     {absl::StatusCode::kUnavailable, "UNAVAILABLE"}}};

const std::vector<double> kBounds = {.0001, .00025, .0005, .001, .0025, .005,
                                     .01,   .025,   .05,   .1,   .25,   .5,
                                     1,     2.5,    5,     10};

}  // namespace

WorkerCalls::WorkerCalls(MetricRegistry& registry) {
  for (size_t m = 0; m < kMethods.size(); ++m)
    for (size_t c = 0; c < kCodes; ++c)
      seconds_[m][c] = &registry.AddHistogram(
          kSeconds, kBounds,
          {{"method", kMethods[m]},
           {"code", c < kNamed.size() ? kNamed[c].name : "other"}});
}

void WorkerCalls::Count(WorkerMethod method, absl::StatusCode code,
                        double seconds) {
  const auto named =
      std::find_if(kNamed.begin(), kNamed.end(),
                   [&](const Code& one) { return one.code == code; });
  seconds_[static_cast<size_t>(method)][named - kNamed.begin()]->Observe(
      seconds);
}

}  // namespace phalanx
