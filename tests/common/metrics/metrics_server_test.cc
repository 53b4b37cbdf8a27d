// Over a real socket, with an HTTP client of a few lines.

#include "common/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr MetricFacts kCounter = {"phalanx_things_total", "Things."};
constexpr char kAny[] = "127.0.0.1:0";

// The whole answer to a GET, head and content.
std::string Get(const std::string& address, const std::string& path) {
  const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(std::stoi(address.substr(address.rfind(':') + 1)));
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(connect(socket_fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) ==
        0);
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: me\r\n\r\n";
  CHECK(write(socket_fd, request.data(), request.size()) ==
        static_cast<ssize_t>(request.size()));
  std::string answer;
  char part[4096];
  for (ssize_t n; (n = read(socket_fd, part, sizeof(part))) > 0;)
    answer.append(part, n);
  close(socket_fd);
  return answer;
}

class MetricsServerTest : public testing::Test {
 protected:
  MetricsServerTest() {
    registry_.AddCounter(kCounter).Increment(5);
    auto server = MetricsServer::Start(
        "--metrics-listen", kAny, registry_, [this]() -> absl::Status {
          if (ready_.load()) return absl::OkStatus();
          return absl::UnavailableError("rank 1 is loading");
        });
    CHECK(server.ok());
    server_ = *std::move(server);
  }

  MetricRegistry registry_;
  std::atomic<bool> ready_{true};
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, MetricsAreTheRegistrysText) {
  EXPECT_THAT(Get(server_->address(), "/metrics"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"),
                    HasSubstr("Content-Type: text/plain; version=0.0.4"),
                    HasSubstr("\r\n\r\n" + registry_.Text())));
}

TEST_F(MetricsServerTest, HealthzIsOkWhateverIsReady) {
  ready_.store(false);

  EXPECT_THAT(Get(server_->address(), "/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(MetricsServerTest, ReadyzIsOkWhereItServes) {
  EXPECT_THAT(Get(server_->address(), "/readyz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(MetricsServerTest, ReadyzSaysWhyNot) {
  ready_.store(false);

  EXPECT_THAT(
      Get(server_->address(), "/readyz"),
      AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("rank 1 is loading\n")));
}

TEST_F(MetricsServerTest, AnythingElseIsNotThere) {
  for (const char* path : {"/", "/metrics/x", "/healthzz", "/etc/passwd"})
    EXPECT_THAT(Get(server_->address(), path), StartsWith("HTTP/1.1 404"))
        << path;
}

TEST_F(MetricsServerTest, ManyAskAtOnce) {
  std::vector<std::thread> askers;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i)
    askers.emplace_back([&] {
      if (Get(server_->address(), "/metrics").ends_with(registry_.Text()))
        right.fetch_add(1);
    });
  for (std::thread& asker : askers) asker.join();

  EXPECT_EQ(right.load(), 8);
}

TEST_F(MetricsServerTest, APortInUseIsAnError) {
  EXPECT_THAT(MetricsServer::Start("--metrics-listen", server_->address(),
                                   registry_, [] { return absl::OkStatus(); })
                  .status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("--metrics-listen is " + server_->address() +
                                 "; it cannot be bound")));
}

TEST_F(MetricsServerTest, AnAddressOfAnotherHostIsAnError) {
  EXPECT_THAT(
      MetricsServer::Start("--metrics-listen", "203.0.113.1:0", registry_,
                           [] { return absl::OkStatus(); })
          .status(),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("203.0.113.1:0")));
}

TEST_F(MetricsServerTest, WhatIsNoAddressIsRefused) {
  for (const char* address :
       {"", "9000", ":9000", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
        "127.0.0.1:-1", "127.0.0.1:0s", "127.0.0.1:0,127.0.0.1:0", "[::1]:0",
        "127.0.0.1:+1"})
    EXPECT_THAT(MetricsServer::Start("--metrics-listen", address, registry_,
                                     [] { return absl::OkStatus(); })
                    .status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("must be HOST:PORT")))
        << address;
}

}  // namespace
}  // namespace phalanx
