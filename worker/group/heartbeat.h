#ifndef PHALANX_WORKER_GROUP_HEARTBEAT_H_
#define PHALANX_WORKER_GROUP_HEARTBEAT_H_

#include <chrono>

namespace phalanx {

// How often a rank looks whether it has heard of the other.
inline constexpr std::chrono::milliseconds kHeartbeatTick{500};
// A follower beats, and rank 0 answers, at every second tick.
inline constexpr int kTicksPerBeat = 2;
// Ticks with no word of the other after which it is lost: 3 seconds.
inline constexpr int kSilentTicks = 6;

// Judges the silence of one peer. Time is counted in looks of one's own, so a
// process that was itself stopped, or got no CPU, does not take the others for
// lost when it goes on. Guarded by its owner.
class SilenceWatch {
 public:
  // A word of the peer came.
  void Heard() { silent_ticks_ = 0; }

  // A tick has passed. True once the peer has been silent for too long.
  bool Tick() { return ++silent_ticks_ > kSilentTicks; }

 private:
  int silent_ticks_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_GROUP_HEARTBEAT_H_
