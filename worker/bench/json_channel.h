#ifndef PHALANX_WORKER_BENCH_JSON_CHANNEL_H_
#define PHALANX_WORKER_BENCH_JSON_CHANNEL_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phalanx {

// Values between two processes that trust each other, a line each. Owns its end
// of a socket. One thread's.
class JsonChannel {
 public:
  explicit JsonChannel(int fd) : fd_(fd) {}
  ~JsonChannel();
  JsonChannel(const JsonChannel&) = delete;
  JsonChannel& operator=(const JsonChannel&) = delete;

  // UNAVAILABLE if the other process is gone. What is no UTF-8 in a string
  // arrives as U+FFFD.
  absl::Status Send(const nlohmann::json& value);
  absl::StatusOr<nlohmann::json> Receive();

 private:
  const int fd_;
  std::string read_;  // Behind the last line.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_JSON_CHANNEL_H_
