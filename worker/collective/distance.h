#ifndef PHALANX_WORKER_COLLECTIVE_DISTANCE_H_
#define PHALANX_WORKER_COLLECTIVE_DISTANCE_H_

#include <algorithm>

namespace phalanx {

// Whether cache lines travel far between the ranks of a group: to another part
// of the processor or another socket. There, taking a line back that others
// have read costs several times its reading, and messages are better written
// past the caches.
//
// It is measured, not known: virtual machines show no such thing and move. It
// decides how bytes travel, never which.
//
// Rank 0's, by its engine thread.
class Distance {
 public:
  // How long a line took from its writer's clock to its reader's, who was
  // spinning for it. A single one means little: either may have been held up.
  void Vote(double seconds) {
    votes_ =
        std::clamp(votes_ + (seconds > kFarSeconds ? 1 : -1), -kSure, kSure);
    if (votes_ == kSure) far_ = true;
    if (votes_ == -kSure) far_ = false;
  }

  // What the last votes agreed on; at first, near.
  bool far() const { return far_; }

 private:
  // Between what half a round trip takes near (63 ns) and far (245 ns), each
  // with two readings of the clock.
  static constexpr double kFarSeconds = 200e-9;
  static constexpr int kSure = 4;

  int votes_ = 0;
  bool far_ = false;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_DISTANCE_H_
