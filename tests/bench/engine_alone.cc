#include "tests/bench/engine_alone.h"

#include <deque>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "common/check.h"
#include "common/units.h"
#include "kernels/cpu/cpu_backend.h"
#include "worker/cpu_share.h"

namespace phalanx {
namespace {

constexpr uint64_t kEpoch = 1;
// The worker's own default.
constexpr int64_t kPrefillChunk = 512;

// Counts tokens; tells of the end.
class CountingSink final : public TokenSink {
 public:
  explicit CountingSink(absl::BlockingCounter& ends) : ends_(ends) {}

  void Admitted(double, int64_t) override {}
  void Push(std::vector<Token> tokens) override {
    tokens_ += std::ssize(tokens);
  }
  void Finish(FinishReason, int32_t) override { ends_.DecrementCount(); }
  void Close(absl::Status error) override {
    CHECK(error.ok());  // It never is: a bench has no use for less than all.
  }
  bool cancelled() const override { return false; }

  int64_t tokens() const { return tokens_; }

 private:
  absl::BlockingCounter& ends_;
  int64_t tokens_ = 0;
};

BackendFactory ServedBackend() {
  return [] {
    const CpuShare share = ShareCpus(AllowedCpus(), 0, 1, 0);
    return CreateCpuBackend({.threads = share.threads,
                             .cpus = share.cpus,
                             .spin = share.spin,
                             .isa = std::nullopt,
                             .family = std::nullopt});
  };
}

}  // namespace

EngineAlone::EngineAlone(const std::string& model_dir, int64_t batch,
                         int64_t tokens) {
  limits_.max_running = batch;
  limits_.max_waiting = batch;
  limits_.max_model_len = tokens;
  limits_.prefill_chunk = kPrefillChunk;
  limits_.step_tokens = kPrefillChunk + batch;
  limits_.kv_blocks = batch * CeilDivide(tokens, limits_.block_tokens);
  limits_.state_slots = batch;
  ranks_ = TpGroup::MustCreate({.model_dir = model_dir,
                                .tp_size = 1,
                                .backends = ServedBackend(),
                                .limits = PlanLimits(limits_)});
  limits_.vocab_size = ranks_->config().vocab_size;
  engine_ = std::make_unique<Engine>(limits_, *ranks_->rank(0).runner, inbox_,
                                     board_, clock_);
  thread_ = std::thread([this] {
    CHECK(engine_
              ->Run(*ranks_->rank(0).comm, kEpoch,
                    {.kv_blocks = limits_.kv_blocks,
                     .state_slots = limits_.state_slots})
              .ok());
  });
  while (board_.Read().state != WorkerState::kReady) std::this_thread::yield();
}

EngineAlone::~EngineAlone() {
  engine_->Stop();
  thread_.join();
}

double EngineAlone::Run(const BenchWorkload& workload, int64_t streams) {
  absl::BlockingCounter ends(static_cast<int>(streams));
  std::deque<CountingSink> sinks;
  const double start = clock_.now_seconds();
  for (int64_t i = 0; i < streams; ++i) {
    const BenchRequest from = workload.Request(i);
    Request request;
    request.id = absl::StrCat(i);
    request.epoch = kEpoch;
    request.prompt_ids = from.prompt_ids;
    request.max_tokens = from.output_tokens;
    CHECK(inbox_.Submit(request, &sinks.emplace_back(ends)).ok());
  }
  ends.Wait();
  const double seconds = clock_.now_seconds() - start;
  int64_t tokens = 0;
  for (const CountingSink& sink : sinks) tokens += sink.tokens();
  return static_cast<double>(tokens) / seconds;
}

}  // namespace phalanx
