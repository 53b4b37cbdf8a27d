#ifndef PHALANX_TESTS_GATEWAY_ROUTER_FAKE_WORKER_H_
#define PHALANX_TESTS_GATEWAY_ROUTER_FAKE_WORKER_H_

// One rank as a gateway meets it: a real server on a unix socket whose streams
// do what a test's script says.

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "worker.grpc.pb.h"

namespace phalanx {

// A folder of its own for sockets; gone with the object.
class SocketFolder {
 public:
  SocketFolder();
  ~SocketFolder();
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;

  // "unix:/.../name".
  std::string Address(const std::string& name) const;

 private:
  std::string path_;
};

// Rank `rank` of `tp_size`, ready in `epoch`, with a model of 300 tokens, stop
// id 261 and a context of 100 tokens.
v1::WorkerStatus ReadyStatus(int rank, int tp_size, uint64_t epoch);

class FakeWorker final : private v1::Worker::Service {
 public:
  using Writer = grpc::ServerWriter<v1::WorkerGenerateEvent>;
  // Runs on a thread of its own for each stream; its result ends the stream.
  using Script = std::function<grpc::Status(
      grpc::ServerContext&, const v1::WorkerGenerateRequest&, Writer&)>;

  FakeWorker(const std::string& address, const v1::WorkerStatus& status);
  ~FakeWorker() override { Kill(); }

  void SetStatus(const v1::WorkerStatus& status);
  void SetScript(Script script);
  Script script();
  // Between these, GetStatus does not answer.
  void HoldStatus() { SetHeld(true); }
  void ReleaseStatus() { SetHeld(false); }
  // Closes every connection, as the end of the process would. Scripts must end
  // when their writes fail.
  void Kill();

 private:
  grpc::Status Generate(grpc::ServerContext* context,
                        const v1::WorkerGenerateRequest* request,
                        Writer* writer) override;
  grpc::Status GetStatus(grpc::ServerContext* context,
                         const v1::WorkerStatusRequest* request,
                         v1::WorkerStatus* response) override;

  void SetHeld(bool held);

  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  v1::WorkerStatus status_ ABSL_GUARDED_BY(mutex_);
  Script script_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

// An event with these tokens and no log-probabilities.
v1::WorkerGenerateEvent TokensEvent(const std::vector<int32_t>& ids);
v1::WorkerGenerateEvent FinishedEvent(v1::WorkerFinished::Reason reason,
                                      int32_t stop_id = 0);

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_ROUTER_FAKE_WORKER_H_
