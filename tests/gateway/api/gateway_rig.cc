#include "tests/gateway/api/gateway_rig.h"

#include <chrono>
#include <utility>

#include "common/grpc_status.h"
#include "tests/gateway/api/api_fixtures.h"

namespace phalanx {

std::vector<v1::GenerateEvent> ClientStream::ReadAll() {
  std::vector<v1::GenerateEvent> events;
  v1::GenerateEvent event;
  while (reader_->Read(&event)) events.push_back(event);
  return events;
}

absl::Status ClientStream::End() { return FromGrpc(reader_->Finish()); }

std::string TextOf(const std::vector<v1::GenerateEvent>& events) {
  std::string text;
  for (const v1::GenerateEvent& event : events) text += event.delta().text();
  return text;
}

std::vector<int32_t> IdsOf(const std::vector<v1::GenerateEvent>& events) {
  std::vector<int32_t> ids;
  for (const v1::GenerateEvent& event : events)
    ids.insert(ids.end(), event.delta().token_ids().begin(),
               event.delta().token_ids().end());
  return ids;
}

Replay::Limits RigLimits(double wait_seconds) {
  return {.wait_seconds = wait_seconds,
          .degrade_seconds = 0,
          .same_epoch_seconds = 600};
}

GatewayRig::GatewayRig(const v1::WorkerStatus& status, int64_t max_requests,
                       const Replay::Limits& limits)
    : tokenizer_(MakeSmallTokenizer()),
      template_(MakeSmallTemplate()),
      text_({.name = "mini",
             .tokenizer = tokenizer_.get(),
             .chat_template = template_.get()}),
      admission_(max_requests) {
  worker_ = std::make_unique<FakeWorker>(folder_.Address("0"), status);
  // On a busy machine the first looks may not get through.
  const bool can_be_ready = status.state() == v1::RANK_STATE_READY &&
                            status.rank() == 0 && status.tp_size() == 1;
  router_ = std::make_unique<Router>(
      std::vector<GroupSpec>{
          {.name = "0", .addresses = {folder_.Address("0")}}},
      [this, can_be_ready](bool ready) {
        if (ready || !can_be_ready) seen_.Set();
      });
  service_ = std::make_unique<InferenceService>(
      text_, admission_, active_, *router_, clock_, std::nullopt, &recorder_,
      Resuming{.limits = limits, .key = ResumeKey::Of(std::string(32, 'k'))});
  grpc::ServerBuilder builder;
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  stub_ = v1::Inference::NewStub(
      server_->InProcessChannel(grpc::ChannelArguments()));
  WaitUntilSeen();
}

GatewayRig::~GatewayRig() {
  server_->Shutdown(std::chrono::system_clock::now());
  worker_->Kill();
}

void GatewayRig::Replace(const v1::WorkerStatus& status) {
  FakeWorker::Script script = worker_->script();
  worker_->Kill();
  worker_.reset();
  worker_ = std::make_unique<FakeWorker>(folder_.Address("0"), status);
  worker_->SetScript(std::move(script));
}

std::unique_ptr<ClientStream> GatewayRig::Generate(
    const v1::GenerateRequest& request) {
  return std::make_unique<ClientStream>(*stub_, request);
}

std::unique_ptr<ClientStream> GatewayRig::Generate(const std::string& id) {
  return Generate(RequestOf(id));
}

v1::CancelResponse GatewayRig::Cancel(const v1::CancelRequest& request) {
  grpc::ClientContext context;
  v1::CancelResponse response;
  stub_->Cancel(&context, request, &response);
  return response;
}

v1::GenerateRequest RequestOf(const std::string& id) {
  v1::GenerateRequest request;
  request.set_request_id(id);
  request.set_text("p");
  return request;
}

grpc::Status WriteUntilNobodyReads(FakeWorker::Writer& writer) {
  while (writer.Write(TokensEvent({'x'}))) {
  }
  return grpc::Status::OK;
}

}  // namespace phalanx
