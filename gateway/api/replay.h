#ifndef PHALANX_GATEWAY_API_REPLAY_H_
#define PHALANX_GATEWAY_API_REPLAY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace phalanx {

// What the end of a worker's stream says of its group.
enum class Loss {
  kNone,      // Not lost: the error is the request's own.
  kSuspect,   // Lost in a step that this sequence may have been in.
  kInnocent,  // Lost, or on its way out, without this sequence's doing.
};

// GROUP_LOST is innocent where its in_step is false; STALE_EPOCH, and
// UNAVAILABLE with DRAINING or STARTING, always are; a transport that broke
// says nothing, so it is suspect. A stream that was `resumed` once has passed a
// queue; QUEUE_FULL and QUEUE_TIMEOUT then speak of the group, not of it.
Loss LossOf(const absl::Status& worker_end, bool resumed);

// How one choice stands with the groups that ran it.
struct Trial {
  bool suspect = false;   // To be run alone at first.
  bool on_trial = false;  // It was, and no token has come since.

  // Suspicion ends with a token.
  void Acquit() { suspect = on_trial = false; }
};

// What one stream may still do after it lost its group: how often, for how
// long, and where. Pure; under the stream's lock. Seconds are of one clock.
class Replay {
 public:
  struct Limits {
    int64_t max_losses = 3;      // Of which it is not innocent.
    double wait_seconds = 30;    // For a group that is ready.
    double degrade_seconds = 5;  // For one of the same numerics id.
    // An epoch that this stream lost is not tried again before: by then the
    // gateway has looked at every rank since.
    double same_epoch_seconds = 1.5;
  };
  // Losses that cost nothing are bounded too, so that a stream ends whatever
  // workers say.
  static constexpr int64_t kMaxFreeLosses = 16;

  enum class Verdict { kGoOn, kExhausted, kPoison };

  explicit Replay(const Limits& limits) : limits_(limits) {}

  // A choice lost the group of the stream's `route`-th place, of which all its
  // choices count as one loss. Updates the choice's standing. One that was in a
  // step that killed its group, and then alone in one that did, is poison.
  Verdict OnLost(int64_t route, Loss loss, Trial& trial);

  // The group is not to be taken in this epoch for a while; the wait for
  // another begins.
  void Leave(const std::string& group, uint64_t epoch, double now);
  // A group was taken.
  void Arrived() { since_.reset(); }

  bool MayTake(const std::string& group, uint64_t epoch, double now) const;
  // Under another numerics id.
  bool MayDegrade(double now) const;
  bool WaitedTooLong(double now) const;
  // Seconds until one of these may change, or a look is due anyway.
  double NextLook(double now) const;

  int64_t losses() const { return losses_; }

 private:
  struct Left {
    uint64_t epoch = 0;
    double seconds = 0;
  };

  const Limits limits_;
  int64_t losses_ = 0;
  int64_t free_losses_ = 0;
  int64_t route_ = 0;   // Of the last loss.
  bool spent_ = false;  // Whether that one counts.
  std::map<std::string, Left> left_;
  std::optional<double> since_;  // When the wait began.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_REPLAY_H_
