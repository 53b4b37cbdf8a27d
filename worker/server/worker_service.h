#ifndef PHALANX_WORKER_SERVER_WORKER_SERVICE_H_
#define PHALANX_WORKER_SERVER_WORKER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>

#include "common/mutex.h"
#include "worker.grpc.pb.h"
#include "worker/engine/status_board.h"
#include "worker/experts/expert_cache.h"
#include "worker/scheduler/inbox.h"

namespace phalanx {

// What gateways may ask of one rank. Converts, hands over, returns; all work
// happens on the engine thread. Registered with the worker's server, which it
// outlives; methods run on gRPC's threads.
class WorkerService final : public v1::Worker::CallbackService {
 public:
  // `inbox` is null on ranks above 0, which refuse Generate and Cancel with
  // WRONG_STATE. Both outlive this.
  WorkerService(Inbox* inbox, const StatusBoard& board)
      : inbox_(inbox), board_(board) {}

  // What GetStatus says beside the board: rank, sizes, memory. Called again
  // when more is known (after load). Any thread.
  void Describe(const v1::WorkerStatus& facts);
  // Where GetStatus looks up what the cache of experts did; it must answer as
  // long as the server does. Any thread.
  void ShowExperts(std::function<ExpertCacheCounters()> counters);

  grpc::ServerWriteReactor<v1::WorkerGenerateEvent>* Generate(
      grpc::CallbackServerContext* context,
      const v1::WorkerGenerateRequest* request) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::WorkerCancelRequest* request,
                                   v1::WorkerCancelResponse* response) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::WorkerStatusRequest* request,
                                      v1::WorkerStatus* response) override;

 private:
  Inbox* inbox_;
  const StatusBoard& board_;
  Mutex mutex_;
  v1::WorkerStatus facts_ ABSL_GUARDED_BY(mutex_);
  std::function<ExpertCacheCounters()> experts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SERVER_WORKER_SERVICE_H_
