#ifndef PHALANX_WORKER_BENCH_SAMPLES_H_
#define PHALANX_WORKER_BENCH_SAMPLES_H_

// What becomes of samples that were taken between two looks at the machine.
// Pure; any thread.

#include <functional>
#include <optional>
#include <vector>

#include "worker/bench/roofs.h"

namespace phalanx {

// A machine that moved by more than this is another one.
inline constexpr double kMostMoved = 0.1;
// So many attempts for each sample that is wanted.
inline constexpr int kAttempts = 3;

// The middle one; of an even number the mean of the two; none of none.
std::optional<double> Median(std::vector<double> values);

// By how much the roof that moved most did: its larger look over its smaller
// one, less 1.
double MovedBy(const Roofs& before, const Roofs& after);

// How many samples were kept, and how many were thrown away because the machine
// moved meanwhile.
struct SampleCount {
  int kept = 0;
  int thrown = 0;
};

// Takes samples until `wanted` are kept, or kAttempts times as many were taken:
// calls `look`, then `take` and `look` in turns, a look serving the samples on
// both of its sides. `keep` gets what was taken and the machine of that minute.
template <typename Sample>
SampleCount TakeSamples(int wanted, const std::function<Roofs()>& look,
                        const std::function<Sample()>& take,
                        const std::function<void(Sample, Roofs)>& keep) {
  SampleCount count;
  Roofs before = look();
  while (count.kept < wanted &&
         count.kept + count.thrown < kAttempts * wanted) {
    Sample sample = take();
    const Roofs after = look();
    if (MovedBy(before, after) > kMostMoved) {
      ++count.thrown;
    } else {
      ++count.kept;
      keep(std::move(sample), MeanOf(before, after));
    }
    before = after;
  }
  return count;
}

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_SAMPLES_H_
