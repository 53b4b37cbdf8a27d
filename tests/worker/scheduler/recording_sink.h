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
    admitted = queue_seconds;
    cached = cached_tokens;
  }
  void Preempted() override {
    EXPECT_TRUE(admitted.has_value());
    EXPECT_EQ(ends, 0);
    ++preemptions;
  }
  void OnTrial() override {
    EXPECT_FALSE(admitted.has_value());
    EXPECT_EQ(ends, 0);
    ++trials;
  }
  void PushPrompt(std::vector<Token> tokens) override {
    EXPECT_TRUE(admitted.has_value());
    EXPECT_EQ(ends, 0);
    EXPECT_TRUE(ids.empty());
    EXPECT_FALSE(tokens.empty());
    for (Token& token : tokens) prompt.push_back(std::move(token));
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
  bool full() const override { return unread.load(); }
  bool trial_known() const override { return known.load(); }

  std::optional<double> admitted;  // Seconds in the queue.
  int64_t cached = 0;
  int preemptions = 0;
  int trials = 0;
  std::vector<Token> prompt;
  std::vector<int32_t> ids;
  std::optional<FinishReason> finished;
  int32_t stop_id = -1;
  absl::Status error;
  int ends = 0;
  std::atomic<bool> gone{false};    // What cancelled() says.
  std::atomic<bool> unread{false};  // What full() says.
  std::atomic<bool> known{true};    // What trial_known() says.
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_SCHEDULER_RECORDING_SINK_H_
