// phalanx-gateway: the composition root of the public service.

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/json_util.h>
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/allocator.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/shutdown.h"
#include "common/status.h"
#include "common/version.h"
#include "gateway/admission/admission.h"
#include "gateway/api/active_requests.h"
#include "gateway/api/admin_service.h"
#include "gateway/api/inference_service.h"
#include "gateway/config.h"
#include "gateway/drain.h"
#include "gateway/metrics/gateway_metrics.h"
#include "gateway/router/router.h"

namespace phalanx {
namespace {

constexpr int kMaxReceiveBytes = 32 << 20;
constexpr int kMaxConnectionAgeMs = 30 * 60 * 1000;
// Streams of one connection beyond --max-requests: for refusals that say so,
// Cancel and health.
constexpr int kMoreStreams = 128;
constexpr std::chrono::seconds kShutdownGrace{2};

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

void SetLimits(grpc::ServerBuilder& builder, int64_t max_requests) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  builder.SetMaxSendMessageSize(-1);
  // A half-open peer is found within 40 s.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 3);
  // A connection is asked to come again by GOAWAY, so that replicas that were
  // added get their share; gRPC spreads this by a tenth. Its streams stay.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                             kMaxConnectionAgeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             std::numeric_limits<int>::max());
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(max_requests) + kMoreStreams);
}

// A server for `service` at `address`, which gets the port that was taken.
absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(const char* flag,
                                                     std::string& address,
                                                     int64_t max_requests,
                                                     GatewayMetrics& metrics,
                                                     grpc::Service& service) {
  grpc::ServerBuilder builder;
  SetLimits(builder, max_requests);
  metrics.Watch(builder);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
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

// What the public server's health says: whether any group is ready, until it
// drains. Groups are watched from before the server starts until after it ends.
class Health {
 public:
  void Attach(grpc::Server& server) {
    MutexLock lock(mutex_);
    server_ = &server;
    Tell();
  }
  // The last word: nobody should come any more.
  void Drain() {
    MutexLock lock(mutex_);
    ready_ = false;
    Tell();
    server_ = nullptr;
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

// What SIGQUIT prints, from whenever there is something to say.
class Diagnostics {
 public:
  // Null: not any more.
  void Attach(const AdminService* admin) {
    MutexLock lock(mutex_);
    admin_ = admin;
  }
  // One line of JSON on stderr.
  void Print() {
    MutexLock lock(mutex_);
    v1::GetStatusResponse status;
    status.set_version(kVersion);
    status.set_state("starting");
    if (admin_ != nullptr) status = admin_->Status();
    google::protobuf::util::JsonPrintOptions options;
    options.always_print_primitive_fields = true;
    options.preserve_proto_field_names = true;
    std::string json;
    if (!google::protobuf::util::MessageToJsonString(status, &json, options)
             .ok())
      json = "null";
    json = absl::StrCat("{\"event\":\"diagnostics\",\"gateway\":", json, "}\n");
    [[maybe_unused]] const ssize_t n =
        write(STDERR_FILENO, json.data(), json.size());
  }

 private:
  Mutex mutex_;
  const AdminService* admin_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

absl::Status Serve(GatewayConfig& config, StopCount& stop,
                   Diagnostics& diagnostics) {
  Texts texts;
  RETURN_IF_ERROR(LoadTexts(config, texts));
  Resuming resuming;
  resuming.limits.max_losses = config.resume_max;
  resuming.limits.wait_seconds = config.resume_wait_seconds;
  if (!config.resume_key_file.empty()) {
    ASSIGN_OR_RETURN(resuming.key, ResumeKey::Load(config.resume_key_file));
  }
  MonotonicClock clock;
  Admission admission(config.max_requests);
  ActiveRequests active;
  Health health;
  GatewayMetrics metrics(texts.model.name, config.groups, admission);
  Router router(
      config.groups, [&](bool ready) { health.SetReady(ready); },
      texts.tokenizer == nullptr ? 0 : texts.tokenizer->vocab_size(),
      metrics.groups());
  RETURN_IF_ERROR(metrics.Serve(config.metrics_listen, router));
  const absl::Cleanup stop_metrics = [&] { metrics.Stop(); };
  InferenceService inference(texts.model, admission, active, router, clock,
                             config.seed, &metrics.requests(),
                             std::move(resuming));
  AdminService admin(texts.model.name, admission, router, clock,
                     metrics.address());
  ASSIGN_OR_RETURN(const std::unique_ptr<grpc::Server> server,
                   Listen("--address", config.address, config.max_requests,
                          metrics, inference));
  ASSIGN_OR_RETURN(const std::unique_ptr<grpc::Server> admin_server,
                   Listen("--admin-address", config.admin_address,
                          config.max_requests, metrics, admin));
  health.Attach(*server);
  diagnostics.Attach(&admin);
  LogInfo("gateway", "listening",
          {{"address", config.address},
           {"admin", config.admin_address},
           {"metrics", metrics.address()},
           {"model", texts.model.name}});
  stop.Await(1);

  LogInfo("gateway", "draining", {{"requests", admission.held()}});
  admission.BeginDrain();
  health.Drain();
  Drain({.server = *server,
         .stop = stop,
         .admission = admission,
         .active = active,
         .service = inference})
      .Run({.delay_seconds = config.drain_delay_seconds,
            .timeout_seconds = config.drain_timeout_seconds});
  diagnostics.Attach(nullptr);
  admin_server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  LimitAllocatorArenas();
  // First, since gRPC makes threads as soon as it is up.
  StopCount stop;
  Diagnostics diagnostics;
  ShutdownSignals signals(
      [&](int count) {
        if (count > 2) _exit(1);
        stop.Set(count);
      },
      [&] { diagnostics.Print(); });
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
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  const absl::Status status = Serve(config, stop, diagnostics);
  if (!status.ok()) {
    LogError("gateway", "cannot go on", {{"cause", status.message()}});
    return 1;
  }
  LogInfo("gateway", "stopped");
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
