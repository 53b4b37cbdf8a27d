#include "tests/worker/collective/groups.h"

#include <unistd.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "worker/collective/local.h"

namespace phalanx {

std::string CaseName(const GroupCase& group_case) {
  return absl::StrCat(
      group_case.transport == Transport::kLocal ? "Local" : "Shm",
      group_case.size, group_case.spin ? "Spinning" : "");
}

ShmConfig ShmConfigOf(int size) {
  return {.name = NewShmName(5),
          .rank = 0,
          .size = size,
          .epoch = 5,
          .slot_bytes = 1 << 20,
          .spin = false,
          .timeout_seconds = 10};
}

Group MakeGroup(const GroupCase& group_case) {
  if (group_case.transport == Transport::kLocal)
    return CreateLocalGroup(group_case.size);
  ShmConfig config = ShmConfigOf(group_case.size);
  config.slot_bytes = group_case.slot_bytes;
  config.spin = group_case.spin;
  Group group(group_case.size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < group_case.size; ++rank) {
    threads.emplace_back([config, rank, &group]() mutable {
      config.rank = rank;
      auto joined = JoinShmGroup(config);
      CHECK(joined.ok());
      group[rank] = *std::move(joined);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return group;
}

void OnEveryRank(const Group& group,
                 const std::function<void(Collective&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& rank : group)
    threads.emplace_back([&body, &rank] { body(*rank); });
  for (std::thread& thread : threads) thread.join();
}

int SegmentsLeft() {
  const std::string prefix = absl::StrCat("phalanx-", getpid(), "-");
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().starts_with(prefix)) ++count;
  return count;
}

std::vector<float> Values(uint64_t seed, int64_t count) {
  std::vector<float> values(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    // 24 bits of mantissa and 16 of exponent: additions must round.
    const float mantissa =
        static_cast<float>(static_cast<int64_t>(state >> 40) - (1 << 23));
    value = mantissa / static_cast<float>(1u << ((state >> 20) & 15));
  }
  return values;
}

std::vector<float> PairwiseSum(const std::vector<std::vector<float>>& planes) {
  std::vector<std::vector<float>> level = planes;
  while (level.size() > 1) {
    std::vector<std::vector<float>> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      next.push_back(level[i]);
      for (size_t j = 0; j < next.back().size(); ++j)
        next.back()[j] += level[i + 1][j];
    }
    level = std::move(next);
  }
  return level[0];
}

}  // namespace phalanx
