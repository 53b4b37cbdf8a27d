// phalanx-gateway: the composition root of the public service.

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/shutdown.h"
#include "common/status.h"
#include "gateway/admission/admission.h"
#include "gateway/api/active_requests.h"
#include "gateway/api/admin_service.h"
#include "gateway/api/inference_service.h"
#include "gateway/config.h"
#include "gateway/metrics/gateway_metrics.h"
#include "gateway/router/router.h"

namespace phalanx {
namespace {

constexpr int kMaxReceiveBytes = 32 << 20;
constexpr std::chrono::seconds kShutdownGrace{2};
constexpr char kGroup[] = "0";  // The only one.

// The texts of the model's folder; both may be absent.
struct Texts {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;
  ModelText model;
};

absl::Status LoadTexts(const GatewayConfig& config, Texts& texts) {
  auto tokenizer = Tokenizer::Load(config.model_dir);
  if (tokenizer.ok())
    texts.tokenizer = *std::move(tokenizer);
  else if (!absl::IsNotFound(tokenizer.status()))
    return tokenizer.status();
  auto chat_template = ChatTemplate::Load(config.model_dir);
  if (chat_template.ok())
    texts.chat_template = *std::move(chat_template);
  else if (!absl::IsNotFound(chat_template.status()))
    return chat_template.status();
  const std::filesystem::path folder =
      std::filesystem::path(config.model_dir).lexically_normal();
  texts.model.name = !config.model_name.empty() ? config.model_name
                     : folder.has_filename()
                         ? folder.filename().string()
                         : folder.parent_path().filename().string();
  texts.model.tokenizer = texts.tokenizer.get();
  texts.model.chat_template = texts.chat_template.get();
  return absl::OkStatus();
}

void SetLimits(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  builder.SetMaxSendMessageSize(-1);
  // A half-open peer is found within 40 s.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
}

// A server for `services` at `address`, which gets the port that was taken.
absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(
    const char* flag, std::string& address, GatewayMetrics& metrics,
    std::initializer_list<grpc::Service*> services) {
  grpc::ServerBuilder builder;
  SetLimits(builder);
  metrics.Watch(builder);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0)
    return absl::UnavailableError(
        absl::StrCat(flag, " is ", address,
                     "; it cannot be bound: in use, or no address of this "
                     "host"));
  if (!absl::StartsWith(address, "unix:"))
    address = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  return server;
}

// What the public server's health says: whether the group is ready. The group
// is watched from before the server starts until after it ends.
class Health {
 public:
  // Null: there is no server any more.
  void Attach(grpc::Server* server) {
    MutexLock lock(mutex_);
    server_ = server;
    Tell();
  }
  void SetReady(bool ready) {
    MutexLock lock(mutex_);
    ready_ = ready;
    Tell();
  }

 private:
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (server_ == nullptr) return;
    grpc::HealthCheckServiceInterface* health =
        server_->GetHealthCheckService();
    health->SetServingStatus("", ready_);
    health->SetServingStatus("readiness", ready_);
    health->SetServingStatus("liveness", true);
    health->SetServingStatus("phalanx.v1.Inference", ready_);
  }

  Mutex mutex_;
  grpc::Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status Serve(GatewayConfig& config, absl::Notification& stop) {
  Texts texts;
  RETURN_IF_ERROR(LoadTexts(config, texts));
  MonotonicClock clock;
  Admission admission(config.max_requests);
  ActiveRequests active;
  Health health;
  GatewayMetrics metrics(texts.model.name, kGroup,
                         static_cast<int>(config.workers.size()), admission);
  Router router({{.name = kGroup, .addresses = config.workers}},
                [&](bool ready) { health.SetReady(ready); },
                texts.tokenizer == nullptr ? 0 : texts.tokenizer->vocab_size(),
                {&metrics.group()});
  RETURN_IF_ERROR(metrics.Serve(config.metrics_listen, router));
  const absl::Cleanup stop_metrics = [&] { metrics.Stop(); };
  InferenceService inference(texts.model, admission, active, router, clock,
                             config.seed, &metrics.requests());
  AdminService admin(texts.model.name, admission, router, clock,
                     metrics.address());
  ASSIGN_OR_RETURN(const std::unique_ptr<grpc::Server> server,
                   Listen("--address", config.address, metrics, {&inference}));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<grpc::Server> admin_server,
      Listen("--admin-address", config.admin_address, metrics, {&admin}));
  health.Attach(server.get());
  LogInfo("gateway", "listening",
          {{"address", config.address},
           {"admin", config.admin_address},
           {"metrics", metrics.address()},
           {"model", texts.model.name}});
  stop.WaitForNotification();

  LogInfo("gateway", "stopping", {{"requests", admission.held()}});
  admission.Close();
  health.Attach(nullptr);
  server->GetHealthCheckService()->Shutdown();
  server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  admin_server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  // Debian's Abseil aborts on a lock inversion seen once, gRPC's own included.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // One reference that is never given back: taking gRPC down may wait 10 s for
  // a poller of its own, and the process ends anyway.
  grpc_init();
  // Errors of parsing are told to the client; protobuf would print them too.
  google::protobuf::SetLogHandler(nullptr);
  GatewayConfig config;
  if (const int code = ParseGatewayFlags(argc, argv, config); code >= 0)
    return code;
  absl::Notification stop;
  ShutdownSignals signals([&](int count) {
    if (count == 1) stop.Notify();
    if (count == 2) _exit(1);
  });
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  if (const absl::Status status = Serve(config, stop); !status.ok()) {
    LogError("gateway", "cannot go on", {{"cause", status.message()}});
    return 1;
  }
  LogInfo("gateway", "stopped");
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
