#include "tests/gateway/router/fake_worker.h"

#include <grpc/grpc.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "common/check.h"

namespace phalanx {

SocketFolder::SocketFolder() {
  path_ = (std::filesystem::temp_directory_path() / "phalanx-XXXXXX").string();
  CHECK(mkdtemp(path_.data()) != nullptr);
}

SocketFolder::~SocketFolder() { std::filesystem::remove_all(path_); }

std::string SocketFolder::Address(const std::string& name) const {
  return "unix:" + path_ + "/" + name;
}

v1::WorkerStatus ReadyStatus(int rank, int tp_size, uint64_t epoch) {
  v1::WorkerStatus status;
  status.set_rank(rank);
  status.set_tp_size(tp_size);
  status.set_epoch(epoch);
  status.set_state(v1::RANK_STATE_READY);
  status.set_model_digest("digest");
  status.set_numerics_id("numerics");
  status.set_max_model_len(100);
  v1::ModelFacts& model = *status.mutable_model();
  model.set_model_type("qwen3_5_moe");
  model.set_vocab_size(300);
  model.add_stop_ids(261);
  model.set_temperature(0.5f);
  model.set_top_p(0.75f);
  model.set_top_k(20);
  return status;
}

FakeWorker::FakeWorker(const std::string& address,
                       const v1::WorkerStatus& status)
    : status_(status) {
  // gRPC stays up between tests: taking it down may wait ten seconds for its
  // own backup poller.
  static const bool up = (grpc_init(), true);
  CHECK(up);
  grpc::ServerBuilder builder;
  // As a worker permits the gateway's pings.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);
}

void FakeWorker::SetStatus(const v1::WorkerStatus& status) {
  MutexLock lock(mutex_);
  status_ = status;
}

void FakeWorker::SetScript(Script script) {
  MutexLock lock(mutex_);
  script_ = std::move(script);
}

FakeWorker::Script FakeWorker::script() {
  MutexLock lock(mutex_);
  return script_;
}

void FakeWorker::SetHeld(bool held) {
  MutexLock lock(mutex_);
  held_ = held;
  changed_.SignalAll();
}

void FakeWorker::Kill() { server_->Shutdown(std::chrono::system_clock::now()); }

grpc::Status FakeWorker::Generate(grpc::ServerContext* context,
                                  const v1::WorkerGenerateRequest* request,
                                  Writer* writer) {
  Script script;
  {
    MutexLock lock(mutex_);
    script = script_;
  }
  return script(*context, *request, *writer);
}

grpc::Status FakeWorker::GetStatus(grpc::ServerContext*,
                                   const v1::WorkerStatusRequest*,
                                   v1::WorkerStatus* response) {
  MutexLock lock(mutex_);
  changed_.Wait(mutex_,
                [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !held_; });
  *response = status_;
  return grpc::Status::OK;
}

v1::WorkerGenerateEvent TokensEvent(const std::vector<int32_t>& ids) {
  v1::WorkerGenerateEvent event;
  for (const int32_t id : ids) event.add_tokens()->set_token_id(id);
  return event;
}

v1::WorkerGenerateEvent FinishedEvent(v1::WorkerFinished::Reason reason,
                                      int32_t stop_id) {
  v1::WorkerGenerateEvent event;
  event.mutable_finished()->set_reason(reason);
  event.mutable_finished()->set_stop_id(stop_id);
  return event;
}

}  // namespace phalanx
