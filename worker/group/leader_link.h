#ifndef PHALANX_WORKER_GROUP_LEADER_LINK_H_
#define PHALANX_WORKER_GROUP_LEADER_LINK_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/ticker.h"
#include "worker.grpc.pb.h"
#include "worker/group/formation_inbox.h"
#include "worker/group/heartbeat.h"
#include "worker/group/identity.h"

namespace phalanx {

// A follower's tie to rank 0: the heartbeat stream, held open while both live.
// When it ends, or rank 0 is silent for kSilentTicks, rank 0 is gone, and
// whatever group runs or is awaited is aborted through the inbox. Used by the
// follower's engine thread; has two threads of its own, one that reads and one
// that ticks: it beats every second and judges the silence.
class LeaderLink {
 public:
  // Opens the stream and waits for rank 0's answer. UNAVAILABLE if nobody
  // listens there (yet), or does not answer.
  static absl::StatusOr<std::unique_ptr<LeaderLink>> Connect(
      v1::Rank::StubInterface& leader, const RankIdentity& identity,
      FormationInbox& inbox, std::chrono::milliseconds tick = kHeartbeatTick);
  ~LeaderLink();

  // Tells rank 0 that this rank is free for a new group. Rank 0's refusal, or
  // UNAVAILABLE.
  absl::Status Join(uint64_t last_epoch);

  bool broken() const;

 private:
  bool connected() const;
  LeaderLink(v1::Rank::StubInterface& leader, const RankIdentity& identity,
             FormationInbox& inbox);
  absl::Status Greet();
  void Read();
  void Tick();

  v1::Rank::StubInterface& leader_;
  const RankIdentity identity_;
  FormationInbox& inbox_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::HeartbeatMessage,
                                                    v1::HeartbeatMessage>>
      stream_;
  mutable Mutex mutex_;
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;  // Rank 0 has answered.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;  // That is why.
  int64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  SilenceWatch silence_ ABSL_GUARDED_BY(mutex_);
  std::thread reader_;
  std::unique_ptr<Ticker> ticker_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_GROUP_LEADER_LINK_H_
