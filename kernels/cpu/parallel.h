#ifndef PHALANX_KERNELS_CPU_PARALLEL_H_
#define PHALANX_KERNELS_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/thread_pool.h"

namespace phalanx {

// Handing a loop to threads that spin and collecting them costs 0.2 us where
// cache lines travel near; threads that sleep are
// not waited for. So a piece of work for one thread is at least this long, and
// less than two such pieces run on the caller's thread alone.
inline constexpr int64_t kSmallestPieceNs = 2'000;

// Pieces per thread: few, since each costs an atomic operation, but enough for
// a thread that was held up to be relieved.
inline constexpr int64_t kPiecesPerThread = 4;

// Calls body(first, last) on neighbouring ranges that cover [0, count), on the
// pool's threads if the work is worth it. ns_per_item is a rough guess of one
// item's cost; it and the thread count decide the cut, so body must give the
// same bits for any.
template <typename Body>
void ForRanges(ThreadPool& pool, int64_t count, double ns_per_item,
               const Body& body) {
  if (count <= 0) return;
  const double total = static_cast<double>(count) * ns_per_item;
  const int64_t worth = static_cast<int64_t>(
      std::min(total / kSmallestPieceNs, static_cast<double>(count)));
  const int64_t pieces = std::min(worth, pool.threads() * kPiecesPerThread);
  if (pool.threads() == 1 || pieces < 2) {
    body(int64_t{0}, count);
    return;
  }
  pool.ParallelFor(pieces, [&](int64_t piece) {
    body(count * piece / pieces, count * (piece + 1) / pieces);
  });
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_PARALLEL_H_
