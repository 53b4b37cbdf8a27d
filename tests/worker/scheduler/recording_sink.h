#ifndef PHALANX_TESTS_WORKER_SCHEDULER_RECORDING_SINK_H_
#define PHALANX_TESTS_WORKER_SCHEDULER_RECORDING_SINK_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// Keeps what it is told, and complains of calls that TokenSink forbids.
class RecordingSink final : public TokenSink {
 public:
  void Admitted(double queue_seconds, int64_t cached_tokens) override {
    EXPECT_FALSE(admitted.has_value());
    EXPECT_EQ(ends, 0);
    EXPECT_EQ(cached_tokens, 0);
    admitted = queue_seconds;
  }
  void Push(std::vector<Token> tokens) override {
    EXPECT_TRUE(admitted.has_value());
    EXPECT_EQ(ends, 0);
    EXPECT_FALSE(tokens.empty());
    for (const Token& token : tokens) ids.push_back(token.id);
  }
  void Finish(FinishReason reason, int32_t id) override {
    ++ends;
    finished = reason;
    stop_id = id;
  }
  void Close(absl::Status status) override {
    EXPECT_FALSE(status.ok());
    ++ends;
    error = std::move(status);
  }
  bool cancelled() const override { return gone.load(); }

  std::optional<double> admitted;  // Seconds in the queue.
  std::vector<int32_t> ids;
  std::optional<FinishReason> finished;
  int32_t stop_id = -1;
  absl::Status error;
  int ends = 0;
  std::atomic<bool> gone{false};  // What cancelled() says.
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_SCHEDULER_RECORDING_SINK_H_
