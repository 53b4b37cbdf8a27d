#ifndef PHALANX_TESTS_BENCH_SCRIPTED_ENGINE_H_
#define PHALANX_TESTS_BENCH_SCRIPTED_ENGINE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "worker.grpc.pb.h"

namespace phalanx {

// How the tokens of a stream follow each other.
struct EngineScript {
  int tokens_per_message = 1;
  // Every stream gets its message at each tick, all at once, as an engine's
  // step does; what a stream could not send by then goes with the next. 0: each
  // stream writes as fast as its reader takes it.
  std::chrono::microseconds step{0};
};

// One rank as a gateway meets it, ready at once, that computes nothing: each
// request gets max_tokens ids, over and over the same ones. For measuring what
// the gateway itself costs.
//
// Made and scripted by one thread; streams run on gRPC's.
class ScriptedEngine final : public v1::Worker::CallbackService {
 public:
  // `facts` but for rank, state and epoch.
  ScriptedEngine(const std::string& address, const v1::WorkerStatus& facts,
                 std::vector<int32_t> ids);
  ~ScriptedEngine() override;

  // Of streams that begin from now on.
  void SetScript(const EngineScript& script);

 private:
  class Stream;

  grpc::ServerWriteReactor<v1::WorkerGenerateEvent>* Generate(
      grpc::CallbackServerContext* context,
      const v1::WorkerGenerateRequest* request) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::WorkerStatusRequest* request,
                                      v1::WorkerStatus* response) override;
  void Tick();

  const std::vector<int32_t> ids_;
  v1::WorkerStatus status_;
  Mutex mutex_;
  CondVar changed_;
  EngineScript script_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_stream_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those that wait for ticks.
  std::map<int64_t, Stream*> paced_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
  std::thread ticker_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_SCRIPTED_ENGINE_H_
