#ifndef PHALANX_TESTS_WORKER_SERVER_WORKER_SERVICE_RIG_H_
#define PHALANX_TESTS_WORKER_SERVER_WORKER_SERVICE_RIG_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/grpc_status.h"
#include "tests/support/status_matchers.h"
#include "worker/server/worker_service.h"

namespace phalanx {

inline constexpr uint64_t kEpoch = 5;

inline SchedulerLimits Limits() {
  SchedulerLimits limits;
  limits.max_running = 2;
  limits.max_waiting = 1;
  limits.max_model_len = 100'000;
  limits.prefill_chunk = 16;
  limits.step_tokens = 18;
  limits.kv_blocks = 5000;
  limits.state_slots = 2;
  limits.vocab_size = 300;
  return limits;
}

inline v1::WorkerGenerateRequest RequestOf(const std::string& id) {
  v1::WorkerGenerateRequest request;
  request.set_epoch(kEpoch);
  request.set_request_id(id);
  request.add_prompt_ids(1);
  request.set_max_tokens(50'000);
  request.set_top_p(1);
  return request;
}

inline std::vector<Token> OneToken(int32_t id) {
  return {{.id = id, .logprob = 0, .top = {}}};
}

// The worker's service with a real server; each test plays the engine thread.
class WorkerServiceTest : public testing::Test {
 protected:
  // A client's stream. In this process a write completes only when it is read.
  struct Stream {
    explicit Stream(v1::Worker::StubInterface& stub,
                    const v1::WorkerGenerateRequest& request)
        : reader(stub.Generate(&context, request)) {}
    absl::Status End() { return FromGrpc(reader->Finish()); }

    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderInterface<v1::WorkerGenerateEvent>>
        reader;
  };

  explicit WorkerServiceTest(bool leads = true)
      : service_(leads ? &inbox_ : nullptr, board_) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = v1::Worker::NewStub(
        server_->InProcessChannel(grpc::ChannelArguments()));
    inbox_.Open(kEpoch, Limits());
  }
  ~WorkerServiceTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
  }

  // The engine's turn: the one request that came.
  TokenSink* Take() {
    EXPECT_TRUE(inbox_.WaitForWork(std::chrono::seconds(20)));
    Arrivals arrivals = inbox_.Drain();
    EXPECT_EQ(arrivals.submissions.size(), 1u);
    return arrivals.submissions.front().sink;
  }
  void Ended(const std::string& id) {
    const RequestKey key{.id = id, .choice_index = 0};
    inbox_.Ended({&key, 1});
  }
  absl::Status Cancel(uint64_t epoch, const std::string& id, bool* found) {
    grpc::ClientContext context;
    v1::WorkerCancelRequest request;
    request.set_epoch(epoch);
    request.set_request_id(id);
    v1::WorkerCancelResponse response;
    const absl::Status status =
        FromGrpc(stub_->Cancel(&context, request, &response));
    *found = response.found();
    return status;
  }

  Inbox inbox_;
  StatusBoard board_;
  WorkerService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_SERVER_WORKER_SERVICE_RIG_H_
