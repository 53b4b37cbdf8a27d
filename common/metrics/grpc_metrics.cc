#include "common/metrics/grpc_metrics.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/server_interceptor.h>

#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace phalanx {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;
using SteadyClock = std::chrono::steady_clock;

constexpr MetricFacts kStarted = {"grpc_server_started_total",
                                  "Calls that began."};
constexpr MetricFacts kHandled = {"grpc_server_handled_total",
                                  "Calls that ended, by the code they got."};
constexpr MetricFacts kReceived = {"grpc_server_msg_received_total",
                                   "Messages that clients sent."};
constexpr MetricFacts kSent = {"grpc_server_msg_sent_total",
                               "Messages sent to clients."};
constexpr MetricFacts kSeconds = {
    "grpc_server_handling_seconds",
    "From the beginning of a call to its status, streams as a whole."};

// By number, as dashboards spell them.
constexpr std::array<const char*, 17> kCodes = {"OK",
                                                "Canceled",
                                                "Unknown",
                                                "InvalidArgument",
                                                "DeadlineExceeded",
                                                "NotFound",
                                                "AlreadyExists",
                                                "PermissionDenied",
                                                "ResourceExhausted",
                                                "FailedPrecondition",
                                                "Aborted",
                                                "OutOfRange",
                                                "Unimplemented",
                                                "Internal",
                                                "Unavailable",
                                                "DataLoss",
                                                "Unauthenticated"};

const std::vector<double> kSecondsBounds = {.005, .01, .025, .05, .1, .25,
                                            .5,   1,   2.5,  5,   10, 60};

// One call.
class CallCounter final : public Interceptor {
 public:
  explicit CallCounter(GrpcMethodMetrics& metrics) : metrics_(metrics) {
    metrics_.Started();
  }

  void Intercept(InterceptorBatchMethods* batch) override {
    const auto at = [&](InterceptionHookPoints point) {
      return batch->QueryInterceptionHookPoint(point);
    };
    if (at(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        batch->GetRecvMessage() != nullptr)
      metrics_.Received();
    if (at(InterceptionHookPoints::PRE_SEND_MESSAGE)) metrics_.Sent();
    if (at(InterceptionHookPoints::PRE_SEND_STATUS))
      metrics_.Handled(
          batch->GetSendStatus().error_code(),
          std::chrono::duration<double>(SteadyClock::now() - began_).count());
    batch->Proceed();
  }

 private:
  GrpcMethodMetrics& metrics_;
  const SteadyClock::time_point began_ = SteadyClock::now();
};

class CallCounters final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallCounters(const GrpcServerMetrics& metrics) : metrics_(metrics) {}
  Interceptor* CreateServerInterceptor(ServerRpcInfo* call) override {
    GrpcMethodMetrics* const metrics = metrics_.Find(call->method());
    return metrics == nullptr ? nullptr : new CallCounter(*metrics);
  }

 private:
  const GrpcServerMetrics& metrics_;
};

std::string TypeOf(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming())
    return method.server_streaming() ? "bidi_stream" : "client_stream";
  return method.server_streaming() ? "server_stream" : "unary";
}

}  // namespace

GrpcMethodMetrics::GrpcMethodMetrics(const std::string& type,
                                     const std::string& service,
                                     const std::string& method,
                                     MetricRegistry& registry)
    : started_(registry.AddCounter(kStarted, {{"grpc_type", type},
                                              {"grpc_service", service},
                                              {"grpc_method", method}})),
      received_(registry.AddCounter(kReceived, {{"grpc_type", type},
                                                {"grpc_service", service},
                                                {"grpc_method", method}})),
      sent_(registry.AddCounter(kSent, {{"grpc_type", type},
                                        {"grpc_service", service},
                                        {"grpc_method", method}})),
      seconds_(registry.AddHistogram(kSeconds, kSecondsBounds,
                                     {{"grpc_type", type},
                                      {"grpc_service", service},
                                      {"grpc_method", method}})) {
  for (const char* code : kCodes)
    handled_.push_back(
        &registry.AddCounter(kHandled, {{"grpc_type", type},
                                        {"grpc_service", service},
                                        {"grpc_method", method},
                                        {"grpc_code", code}}));
}

void GrpcMethodMetrics::Handled(grpc::StatusCode code, double seconds) {
  const size_t number = static_cast<size_t>(code);
  // What is no code counts as UNKNOWN, 2.
  handled_[number < handled_.size() ? number : 2]->Increment();
  seconds_.Observe(seconds);
}

GrpcServerMetrics::GrpcServerMetrics(const std::vector<std::string>& services,
                                     MetricRegistry& registry) {
  for (const std::string& name : services) {
    const auto* service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            name);
    CHECK(service != nullptr);
    for (int i = 0; i < service->method_count(); ++i)
      Add(TypeOf(*service->method(i)), name, service->method(i)->name(),
          registry);
  }
}

void GrpcServerMetrics::AddHealth(MetricRegistry& registry) {
  Add("unary", "grpc.health.v1.Health", "Check", registry);
  Add("server_stream", "grpc.health.v1.Health", "Watch", registry);
}

void GrpcServerMetrics::Add(const std::string& type, const std::string& service,
                            const std::string& method,
                            MetricRegistry& registry) {
  methods_[absl::StrCat("/", service, "/", method)] =
      std::make_unique<GrpcMethodMetrics>(type, service, method, registry);
}

void GrpcServerMetrics::Watch(grpc::ServerBuilder& builder) {
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      creators;
  creators.push_back(std::make_unique<CallCounters>(*this));
  builder.experimental().SetInterceptorCreators(std::move(creators));
}

GrpcMethodMetrics* GrpcServerMetrics::Find(const std::string& method) const {
  const auto found = methods_.find(method);
  return found == methods_.end() ? nullptr : found->second.get();
}

}  // namespace phalanx
