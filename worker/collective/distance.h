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
  // What one load of a line that another rank has just written took, the
  // reading of the clock included. A single one means little.
  void Vote(double seconds) {
    votes_ =
        std::clamp(votes_ + (seconds > kFarSeconds ? 1 : -1), -kSure, kSure);
    if (votes_ == kSure) far_ = true;
    if (votes_ == -kSure) far_ = false;
  }

  // What the last votes agreed on; at first, near.
  bool far() const { return far_; }

 private:
  // Between what has been seen near (50 to 100 ns) and far (200 to 300).
  static constexpr double kFarSeconds = 150e-9;
  static constexpr int kSure = 4;

  int votes_ = 0;
  bool far_ = false;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_COLLECTIVE_DISTANCE_H_
