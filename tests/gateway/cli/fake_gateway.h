#ifndef PHALANX_TESTS_GATEWAY_CLI_FAKE_GATEWAY_H_
#define PHALANX_TESTS_GATEWAY_CLI_FAKE_GATEWAY_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "admin.grpc.pb.h"
#include "common/grpc_status.h"
#include "inference.grpc.pb.h"

namespace phalanx {

// A service on a free port of this host that answers every question with the
// same script, and remembers what it was asked.
class FakeGateway final : public v1::Inference::Service,
                          public v1::Admin::Service {
 public:
  FakeGateway() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(static_cast<v1::Inference::Service*>(this));
    builder.RegisterService(static_cast<v1::Admin::Service*>(this));
    server_ = builder.BuildAndStart();
    address = absl::StrCat("127.0.0.1:", port);
  }
  ~FakeGateway() override { server_->Shutdown(); }

  void Say(v1::Channel channel, const std::string& text, int choice = 0) {
    v1::Delta& delta = *script.emplace_back().mutable_delta();
    delta.set_index(choice);
    delta.set_channel(channel);
    delta.set_text(text);
    delta.add_token_ids(static_cast<int32_t>(script.size()));
  }

  void Finish(int choice) {
    script.emplace_back().mutable_finished()->set_index(choice);
  }

  grpc::Status Generate(
      grpc::ServerContext* context, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    generated = *request;
    return Play(context, writer);
  }
  grpc::Status Chat(grpc::ServerContext* context,
                    const v1::ChatRequest* request,
                    grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    chats.push_back(*request);
    return Play(context, writer);
  }
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::GetModelResponse* response) override {
    response->set_name("fake");
    response->set_has_tokenizer(has_tokenizer);
    return grpc::Status::OK;
  }
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    response->set_state("ready");
    return grpc::Status::OK;
  }

  std::string address;
  std::vector<v1::GenerateEvent> script;
  absl::Status end;    // How each stream ends.
  bool holds = false;  // Until the client cancels, after the script.
  bool has_tokenizer = true;
  v1::GenerateRequest generated;
  std::vector<v1::ChatRequest> chats;

 private:
  grpc::Status Play(grpc::ServerContext* context,
                    grpc::ServerWriter<v1::GenerateEvent>* writer) {
    for (const v1::GenerateEvent& event : script) writer->Write(event);
    while (holds && !context->IsCancelled())
      gpr_sleep_until(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                   gpr_time_from_millis(5, GPR_TIMESPAN)));
    return ToGrpc(end);
  }

  std::unique_ptr<grpc::Server> server_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_CLI_FAKE_GATEWAY_H_
