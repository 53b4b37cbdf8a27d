#ifndef PHALANX_WORKER_BENCH_RANK_MESSAGES_H_
#define PHALANX_WORKER_BENCH_RANK_MESSAGES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/weight_format.h"
#include "worker/bench/cases.h"
#include "worker/bench/part.h"
#include "worker/bench/work.h"

namespace phalanx {

// What rank 0 is asked over its channel, one after another; it answers each. An
// answer {"error": TEXT} is its last.
struct PassRequest {
  BenchCase c;
  double seconds = 0;   // As many passes as take about so long.
  uint64_t seed = 0;    // Of the ids.
  bool timing = false;  // By part, which disturbs.
};
// A pass is one step of a decode, or all of a prefill.
struct PassResult {
  int64_t passes = 0;
  double seconds = 0;  // Of all passes, as are the others.
  Work work;
  PartSeconds parts = {};
};
// Its first answer, to nothing.
struct RankFacts {
  std::string kernel_family;
  std::string instruction_set;
  std::string moe_mode;
  WeightFormat weights = WeightFormat::kBf16;
  int threads = 0;
  double load_seconds = 0;
  int64_t planned_bytes = 0;
};
// The last, to {"end": true}, is {"peak_bytes": N}: what it held at most, as
// the kernel counts it, without mapped files.

nlohmann::json ToJson(const PassRequest& request);
nlohmann::json ToJson(const PassResult& result);
nlohmann::json ToJson(const RankFacts& facts);
PassRequest PassRequestOf(const nlohmann::json& json);
PassResult PassResultOf(const nlohmann::json& json);
RankFacts RankFactsOf(const nlohmann::json& json);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_RANK_MESSAGES_H_
