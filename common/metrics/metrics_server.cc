#include "common/metrics/metrics_server.h"

#include <CivetServer.h>

#include <chrono>
#include <exception>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/status.h"

namespace phalanx {
namespace {

// Prometheus scrapes one at a time; a probe must not wait for it.
constexpr char kThreads[] = "2";
// A client that says nothing gives its thread back after this.
constexpr char kRequestTimeoutMs[] = "5000";
constexpr std::chrono::milliseconds kKnockInterval{5};
constexpr char kTextFormat[] = "text/plain; version=0.0.4; charset=utf-8";

void Respond(mg_connection* connection, const char* status,
             const std::string& content) {
  const std::string head = absl::StrCat(
      "HTTP/1.1 ", status, "\r\nContent-Type: ", kTextFormat,
      "\r\nContent-Length: ", content.size(), "\r\nConnection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  mg_write(connection, content.data(), content.size());
}

class MetricsHandler final : public CivetHandler {
 public:
  explicit MetricsHandler(const MetricRegistry& registry)
      : registry_(registry) {}
  bool handleGet(CivetServer*, mg_connection* connection) override {
    Respond(connection, "200 OK", registry_.Text());
    return true;
  }

 private:
  const MetricRegistry& registry_;
};

class HealthHandler final : public CivetHandler {
 public:
  explicit HealthHandler(std::function<absl::Status()> state)
      : state_(std::move(state)) {}
  bool handleGet(CivetServer*, mg_connection* connection) override {
    const absl::Status state = state_();
    Respond(connection, state.ok() ? "200 OK" : "503 Service Unavailable",
            state.ok() ? "ok\n"
                       : absl::StrCat(absl::string_view(state.message().data(),
                                                        state.message().size()),
                                      "\n"));
    return true;
  }

 private:
  const std::function<absl::Status()> state_;
};

// What it has to say is said in our own words.
int Silence(const mg_connection*, const char*) { return 1; }

// civetweb's own language has more to it: lists, letters for TLS.
absl::Status CheckAddress(const char* flag, absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  const bool valid =
      colon != absl::string_view::npos && colon > 0 &&
      address.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") ==
          colon &&
      address.find_first_not_of("0123456789", colon + 1) ==
          absl::string_view::npos &&
      absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 &&
      port <= 65535;
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is \"", address,
                   "\"; must be HOST:PORT, the host a name or an IPv4 address, "
                   "the port 0..65535"));
}

class HttpServer final : public MetricsServer {
 public:
  HttpServer(const std::string& address, const MetricRegistry& registry,
             std::function<absl::Status()> ready)
      : metrics_(registry),
        healthy_([] { return absl::OkStatus(); }),
        ready_(std::move(ready)),
        server_(Options(address), Callbacks()) {
    server_.addHandler("/metrics$", metrics_);
    server_.addHandler("/healthz$", healthy_);
    server_.addHandler("/readyz$", ready_);
    const std::vector<int> ports = server_.getListeningPorts();
    CHECK(ports.size() == 1);
    address_ =
        absl::StrCat(address.substr(0, address.rfind(':')), ":", ports[0]);
  }

  // civetweb looks for its end every two seconds, and after each connection.
  ~HttpServer() override {
    std::promise<void> closed;
    std::thread closing([&] {
      server_.close();
      closed.set_value();
    });
    const std::future<void> done = closed.get_future();
    do {
      Knock();
    } while (done.wait_for(kKnockInterval) != std::future_status::ready);
    closing.join();
  }

  const std::string& address() const override { return address_; }

 private:
  static std::vector<std::string> Options(const std::string& address) {
    return {"listening_ports",    address,          "num_threads", kThreads,
            "request_timeout_ms", kRequestTimeoutMs};
  }
  static const CivetCallbacks* Callbacks() {
    static const CivetCallbacks& callbacks = *[] {
      auto* made = new CivetCallbacks();
      made->log_message = Silence;
      return made;
    }();
    return &callbacks;
  }

  // Connects to this server and goes away.
  void Knock() const {
    const size_t colon = address_.rfind(':');
    char error[256];
    mg_connection* const connection =
        mg_connect_client(address_.substr(0, colon).c_str(),
                          std::stoi(address_.substr(colon + 1)),
                          /*use_ssl=*/0, error, sizeof(error));
    if (connection != nullptr) mg_close_connection(connection);
  }

  MetricsHandler metrics_;
  HealthHandler healthy_;
  HealthHandler ready_;
  std::string address_;
  CivetServer server_;  // Last: its threads use the handlers.
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const char* flag, const std::string& address,
    const MetricRegistry& registry, std::function<absl::Status()> ready) {
  RETURN_IF_ERROR(CheckAddress(flag, address));
  try {
    return std::make_unique<HttpServer>(address, registry, std::move(ready));
  } catch (const std::exception&) {
    return absl::UnavailableError(absl::StrCat(
        flag, " is ", address,
        "; it cannot be bound: in use, or no address of this host"));
  }
}

}  // namespace phalanx
