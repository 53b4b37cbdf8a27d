#include "tests/bench/scripted_engine.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace phalanx {

// Writes the script of one request. Deletes itself in OnDone.
class ScriptedEngine::Stream final
    : public grpc::ServerWriteReactor<v1::WorkerGenerateEvent> {
 public:
  Stream(ScriptedEngine& engine, const EngineScript& script, int64_t index,
         int64_t max_tokens)
      : engine_(engine),
        script_(script),
        index_(index),
        total_(max_tokens),
        left_(max_tokens) {
    event_.set_epoch(engine.status_.epoch());
    event_.set_queue_seconds(0);
  }

  // A stream that nothing paces has all its tokens ready.
  void Begin() { Ready(script_.step.count() == 0 ? left_ : 0); }

  // So many more tokens may be sent; none after the last.
  void Ready(int64_t tokens) {
    {
      MutexLock lock(mutex_);
      ready_ = std::min(ready_ + tokens, left_);
      if (writing_ || ready_ == 0) return;
      writing_ = true;
      Fill();
    }
    StartWrite(&event_);
  }

 private:
  void OnWriteDone(bool ok) override {
    bool end;
    {
      MutexLock lock(mutex_);
      event_.Clear();
      event_.set_epoch(engine_.status_.epoch());
      if (!ok) ready_ = left_ = 0;
      end = left_ == 0;
      writing_ = !end && ready_ > 0;
      if (!end && !writing_) return;
      if (writing_) Fill();
    }
    if (end)
      Finish(grpc::Status::OK);
    else
      StartWrite(&event_);
  }

  void OnDone() override {
    {
      MutexLock lock(engine_.mutex_);
      engine_.paced_.erase(index_);
    }
    delete this;
  }

  // A paced stream sends all that is ready.
  void Fill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t count =
        script_.step.count() > 0
            ? ready_
            : std::min<int64_t>(ready_, script_.tokens_per_message);
    for (int64_t i = 0; i < count; ++i, --left_)
      event_.add_tokens()->set_token_id(
          engine_
              .ids_[static_cast<size_t>(total_ - left_) % engine_.ids_.size()]);
    ready_ -= count;
    if (left_ == 0)
      event_.mutable_finished()->set_reason(v1::WorkerFinished::LENGTH);
  }

  ScriptedEngine& engine_;
  const EngineScript script_;
  const int64_t index_;
  const int64_t total_;
  Mutex mutex_;
  int64_t left_ ABSL_GUARDED_BY(mutex_);
  int64_t ready_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  v1::WorkerGenerateEvent event_;  // Touched only while nothing is written.
};

ScriptedEngine::ScriptedEngine(const std::string& address,
                               const v1::WorkerStatus& facts,
                               std::vector<int32_t> ids)
    : ids_(std::move(ids)), status_(facts) {
  status_.set_rank(0);
  status_.set_tp_size(1);
  status_.set_epoch(1);
  status_.set_state(v1::RANK_STATE_READY);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);
  ticker_ = std::thread([this] { Tick(); });
}

ScriptedEngine::~ScriptedEngine() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  ticker_.join();
  server_->Shutdown(std::chrono::system_clock::now());
}

void ScriptedEngine::SetScript(const EngineScript& script) {
  MutexLock lock(mutex_);
  script_ = script;
}

grpc::ServerWriteReactor<v1::WorkerGenerateEvent>* ScriptedEngine::Generate(
    grpc::CallbackServerContext*, const v1::WorkerGenerateRequest* request) {
  Stream* stream;
  {
    MutexLock lock(mutex_);
    const int64_t index = next_stream_++;
    stream = new Stream(*this, script_, index, request->max_tokens());
    if (script_.step.count() > 0) {
      paced_[index] = stream;
      changed_.SignalAll();
      return stream;
    }
  }
  stream->Begin();
  return stream;
}

grpc::ServerUnaryReactor* ScriptedEngine::GetStatus(
    grpc::CallbackServerContext* context, const v1::WorkerStatusRequest*,
    v1::WorkerStatus* response) {
  *response = status_;
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

void ScriptedEngine::Tick() {
  auto next = std::chrono::steady_clock::now();
  while (true) {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&] { return stop_ || !paced_.empty(); });
    if (stop_) return;
    next = std::max(next + script_.step, std::chrono::steady_clock::now());
    changed_.WaitFor(mutex_, next - std::chrono::steady_clock::now(),
                     [&] { return stop_; });
    // A stream cannot go while the lock is held; its writes call back on
    // threads of gRPC's own.
    for (const auto& [index, stream] : paced_)
      stream->Ready(script_.tokens_per_message);
  }
}

}  // namespace phalanx
