#ifndef PHALANX_TESTS_BENCH_ENGINE_ALONE_H_
#define PHALANX_TESTS_BENCH_ENGINE_ALONE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "common/clock.h"
#include "gateway/cli/bench_workload.h"
#include "tests/support/tp_group.h"
#include "worker/engine/engine.h"
#include "worker/engine/status_board.h"
#include "worker/scheduler/inbox.h"
#include "worker/scheduler/limits.h"

namespace phalanx {

// The engine of one rank in this process: what a service is without a gateway,
// sockets and text. Its tokens are counted and dropped.
//
// Made and used by one thread.
class EngineAlone {
 public:
  // As `phalanx serve --tp-size 1` of a machine with so many CPUs, with room
  // for `batch` sequences of `tokens` tokens.
  EngineAlone(const std::string& model_dir, int64_t batch, int64_t tokens);
  ~EngineAlone();

  int64_t vocab_size() const { return ranks_->config().vocab_size; }

  // Tokens per second of the first `streams` requests of the workload, greedy
  // and all at once, from the first submission to the last end.
  double Run(const BenchWorkload& workload, int64_t streams);

 private:
  SchedulerLimits limits_;
  std::unique_ptr<TpGroup> ranks_;
  const MonotonicClock clock_;
  Inbox inbox_;
  StatusBoard board_;
  std::unique_ptr<Engine> engine_;
  std::thread thread_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_ENGINE_ALONE_H_
