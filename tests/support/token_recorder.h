#ifndef PHALANX_TESTS_SUPPORT_TOKEN_RECORDER_H_
#define PHALANX_TESTS_SUPPORT_TOKEN_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "common/mutex.h"
#include "worker/scheduler/token_sink.h"

namespace phalanx {

// A sink that keeps what it is told, and can be waited for. Lives until its
// end; made and read by the test's thread.
class TokenRecorder final : public TokenSink {
 public:
  struct Result {
    std::vector<Token> prompt;  // Where their log-probabilities were asked for.
    std::vector<Token> tokens;
    std::optional<FinishReason> finished;  // Unset: closed with `error`.
    int32_t stop_id = 0;
    absl::Status error;

    std::vector<int32_t> ids() const {
      std::vector<int32_t> ids;
      for (const Token& token : tokens) ids.push_back(token.id);
      return ids;
    }
  };

  TokenRecorder() = default;
  // on_push(n) runs on the engine thread once n tokens are here.
  explicit TokenRecorder(std::function<void(int64_t)> on_push)
      : on_push_(std::move(on_push)) {}

  // Waits for the end.
  Result Wait() {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [this] { return ended_; });
    return result_;
  }

  // What cancelled() says from now on is yes. Any thread.
  void Leave() { gone_.store(true); }

  void Admitted(double, int64_t) override {}
  void PushPrompt(std::vector<Token> tokens) override {
    MutexLock lock(mutex_);
    for (Token& token : tokens) result_.prompt.push_back(std::move(token));
  }
  void Push(std::vector<Token> tokens) override {
    int64_t count = 0;
    {
      MutexLock lock(mutex_);
      for (Token& token : tokens) result_.tokens.push_back(std::move(token));
      count = static_cast<int64_t>(result_.tokens.size());
    }
    if (on_push_) on_push_(count);
  }
  void Finish(FinishReason reason, int32_t stop_id) override {
    MutexLock lock(mutex_);
    result_.finished = reason;
    result_.stop_id = stop_id;
    End();
  }
  void Close(absl::Status error) override {
    MutexLock lock(mutex_);
    // A copy that shares nothing: Debian's Abseil counts the owners of a status
    // where ThreadSanitizer cannot see it.
    result_.error = absl::Status(error.code(), error.message());
    error.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
      result_.error.SetPayload(url, absl::Cord(std::string(payload)));
    });
    End();
  }
  bool cancelled() const override { return gone_.load(); }

 private:
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ended_ = true;
    changed_.SignalAll();
  }

  const std::function<void(int64_t)> on_push_;
  std::atomic<bool> gone_{false};
  Mutex mutex_;
  CondVar changed_;
  Result result_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_SUPPORT_TOKEN_RECORDER_H_
