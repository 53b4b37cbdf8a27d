#ifndef PHALANX_TESTS_WORKER_COLLECTIVE_GROUPS_H_
#define PHALANX_TESTS_WORKER_COLLECTIVE_GROUPS_H_

// Groups of every transport for the tests of collectives, and the plain
// arithmetic that they are compared with.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/collective/collective.h"
#include "worker/collective/shm.h"

namespace phalanx {

enum class Transport { kLocal, kShm };

struct GroupCase {
  Transport transport = Transport::kLocal;
  int size = 1;
  int64_t slot_bytes = 1 << 20;  // Shm only.
  bool spin = false;             // Shm only.
};

// "Shm4Spinning", as the name of a test.
std::string CaseName(const GroupCase& group_case);

// A fresh name, size, epoch 5, slots of 1 MiB, a time limit of 10 s; rank 0.
ShmConfig ShmConfigOf(int size);

using Group = std::vector<std::unique_ptr<Collective>>;

// All ranks of a group as objects of this process; each shm rank has a mapping
// of its own.
Group MakeGroup(const GroupCase& group_case);

// Runs body(rank's collective) on a thread for each rank; returns when all
// have ended.
void OnEveryRank(const Group& group,
                 const std::function<void(Collective&)>& body);

// The number of entries in /dev/shm made under names of this process.
int SegmentsLeft();

// f32 values of either sign whose sum depends on the order; the same for the
// same seed.
std::vector<float> Values(uint64_t seed, int64_t count);

// ((0+1)+(2+3))+... of planes of equal length, in f32.
std::vector<float> PairwiseSum(const std::vector<std::vector<float>>& planes);

}  // namespace phalanx

#endif  // PHALANX_TESTS_WORKER_COLLECTIVE_GROUPS_H_
