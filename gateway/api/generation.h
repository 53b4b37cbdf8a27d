#ifndef PHALANX_GATEWAY_API_GENERATION_H_
#define PHALANX_GATEWAY_API_GENERATION_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "gateway/admission/admission.h"
#include "gateway/api/active_requests.h"
#include "gateway/api/choice.h"
#include "gateway/api/event_queue.h"
#include "gateway/api/live_streams.h"
#include "gateway/api/outcome.h"
#include "gateway/api/prepare.h"
#include "gateway/api/replay.h"
#include "gateway/api/request_observer.h"
#include "gateway/api/resume_token.h"
#include "gateway/api/stream_tally.h"
#include "gateway/router/router.h"
#include "gateway/router/worker_stream.h"
#include "inference.pb.h"

namespace phalanx {

// One client's stream from its acceptance to its finished line: reads the
// tokens of all choices from workers, makes events of them, writes those to the
// client in order; and when the group is lost, goes on with another.
//
// Several gRPC calls meet here, the client's (a server reactor) and one to a
// worker for each choice (client reactors), on any of gRPC's threads. The
// object owns itself until all have ended; the only others that ever share it
// are a call of Cancel, a router's news or a timer under way. gRPC may run
// callbacks inside any call to it, so none is made under the lock: what is to
// be done is gathered in a Errands. A slow client holds back reading from the
// workers once kMaxQueued events wait; nobody else is slowed. Place and request
// id are free again before the client can know of the end.
//
// The reactor speaks bytes, so that a request which does not parse gets a
// status of ours (InferenceService).
class Generation final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                         public ActiveRequests::Stream,
                         public Router::Waiter,
                         public std::enable_shared_from_this<Generation> {
 public:
  // What all streams of a gateway share; outlives them.
  struct Shared {
    ActiveRequests& active;
    Router& router;
    const Tokenizer* tokenizer;
    const Clock& clock;
    LiveStreams& live;
    RequestObserver& observer;
    const ResumeKey& key;
    const Replay::Limits& limits;
  };

  // When a request came, by shared.clock, and how long its client waits;
  // infinite where it set no deadline.
  struct Arrival {
    double seconds = 0;
    double timeout_seconds = std::numeric_limits<double>::infinity();
  };

  // Which stream this is, to whoever goes on with it.
  struct Origin {
    std::string request_digest;
    // Set: this one goes on with a stream that stood here...
    std::optional<ResumePoint> point;
    // ...whose client has these ids, by choice; empty: it did not say.
    std::vector<std::vector<int32_t>> emitted;
    std::vector<TextBytes> seen_text;  // By choice; empty: not said.
  };

  // Use Begin.
  Generation(const Shared& shared, PreparedRequest request, Origin origin,
             Ticket ticket, Router::Route route, const Arrival& arrival);

  // Enters the registry, sends Accepted and starts the workers' streams; on a
  // refusal the stream ends with it. The result is what the service returns.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Begin(
      const Shared& shared, PreparedRequest request, Origin origin,
      Ticket ticket, Router::Route route, const Arrival& arrival);

  bool CancelByClient() override;
  bool EndForDrain() override;
  void OnGroupsChanged() override;

 private:
  static constexpr int64_t kMaxQueued = 256;

  // One call to a worker, for one choice. Shared by that choice until the call
  // has ended, and by whoever is about to cancel or resume it.
  struct Leg final : public WorkerStream::Handler {
    Leg(Generation& of, size_t index, const Router::Route& route)
        : generation(of), choice(index), group(route.group()) {}

    bool OnWorkerEvent(const v1::WorkerGenerateEvent& event) override {
      return generation.OnWorkerEvent(*this, event);
    }
    void OnWorkerEnd(const absl::Status& status) override {
      generation.OnWorkerEnd(*this, status);
    }

    Generation& generation;
    const size_t choice;
    WorkerGroup& group;
    int64_t route = 0;   // The stream's place it belongs to.
    uint64_t epoch = 0;  // Of that.
    double began_seconds = 0;
    bool heard = false;                 // It sent something.
    bool paused = false;                // For a slow client.
    v1::WorkerGenerateRequest request;  // Until it starts.
    WorkerStream stream{*this};
  };
  using Legs = std::vector<std::shared_ptr<Leg>>;

  // One choice, and where it is.
  struct Slot {
    Slot(const PreparedRequest& request, const Tokenizer* tokenizer, int index)
        : choice(request, tokenizer, index) {}

    Choice choice;
    Trial trial;
    std::shared_ptr<Leg> leg;  // Null: none is open.
    bool waiting = true;       // For a leg; else it has one, or is finished.
    bool finished = false;
  };

  enum class Action { kNone, kWrite, kFinish };

  // Decided under the lock, done outside.
  struct Errands {
    Legs start;
    Legs cancel;
    Legs resume;
    double look_again_seconds = 0;  // 0: no need.
    Action action = Action::kNone;
  };

  // The client's call.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  // The workers' calls.
  bool OnWorkerEvent(Leg& leg, const v1::WorkerGenerateEvent& event);
  void OnWorkerEnd(Leg& leg, const absl::Status& status);
  void OnLookAgain();

  // Life: generation.cc.
  void Start();
  void End(absl::Status status, Errands& errands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EndEarly(absl::Status status);
  void LogEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status GoneError() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ResumeLegs(Errands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Token() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WithToken(const absl::Status& status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Action Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(const Errands& errands);
  void Leave();

  // What clients see: generation_events.cc.
  void Push(v1::GenerateEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PushAccepted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PushNotice(v1::Notice::Kind kind, std::string detail)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PushDeltas(std::vector<v1::Delta> deltas)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PushPrompt(v1::Prompt prompt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PushSummary() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RestoreChoices() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GatherPrompt(const v1::WorkerGenerateEvent& event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t PlacesOf(const Slot& slot) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountTokens() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishChoice(Slot& slot, const v1::WorkerFinished& why, Errands& errands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(Leg& leg, Slot& slot, const v1::WorkerGenerateEvent& event,
            Errands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeFirst(Leg& leg, const Slot& slot,
                 const v1::WorkerGenerateEvent& event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Where choices run: generation_route.cc.
  void Lose(Leg& leg, Slot& slot, Loss loss, const absl::Status& status,
            Errands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveUp(ResumeResult result, Errands& errands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayBegin(const Slot& slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GoOn(Errands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FindRoute(Errands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle(Router::Route route) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginLeg(size_t index, Errands& errands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::WorkerGenerateRequest RequestOf(const Slot& slot, size_t index) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LiveStreams::Place place_;
  const Shared shared_;
  const PreparedRequest request_;
  const Origin origin_;
  const Arrival arrival_;

  Mutex mutex_;
  Ticket ticket_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Generation> self_ ABSL_GUARDED_BY(mutex_);
  std::deque<Slot> slots_ ABSL_GUARDED_BY(mutex_);  // By choice.
  EventQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  RequestOutcome outcome_ ABSL_GUARDED_BY(mutex_) = RequestOutcome::kError;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finish_sent_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;  // Some leg is.
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
  int calls_open_ ABSL_GUARDED_BY(mutex_) = 1;
  StreamTally tally_ ABSL_GUARDED_BY(mutex_);
  int64_t unsent_tokens_ ABSL_GUARDED_BY(mutex_) = 0;  // Of no delta yet.

  // The group that runs the choices; none while they wait for one.
  std::optional<Router::Route> route_ ABSL_GUARDED_BY(mutex_);
  int64_t routes_ ABSL_GUARDED_BY(mutex_) = 0;  // So many there were.
  std::string group_ ABSL_GUARDED_BY(mutex_);   // Of the last one.
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string numerics_id_ ABSL_GUARDED_BY(mutex_);
  Replay replay_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);           // How the last one was.
  bool awaiting_ ABSL_GUARDED_BY(mutex_) = false;       // The router's news.
  bool looking_again_ ABSL_GUARDED_BY(mutex_) = false;  // A timer runs.
  // A notice that is due with the first word of the new group.
  std::optional<v1::Notice::Kind> notice_ ABSL_GUARDED_BY(mutex_);
  std::string notice_detail_ ABSL_GUARDED_BY(mutex_);
  int32_t resumes_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t preemptions_ ABSL_GUARDED_BY(mutex_) = 0;

  v1::Prompt prompt_ ABSL_GUARDED_BY(mutex_);         // As far as it came.
  bool prompt_done_ ABSL_GUARDED_BY(mutex_) = false;  // It is not owed.
  bool prompt_sent_ ABSL_GUARDED_BY(mutex_) = false;
  bool anything_sent_ ABSL_GUARDED_BY(mutex_) = false;  // Of the answer.

  // Touched only by whoever Next() told to act, so unguarded.
  grpc::ByteBuffer in_flight_;
  bool more_follows_ = false;
  grpc::Status finish_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_GENERATION_H_
