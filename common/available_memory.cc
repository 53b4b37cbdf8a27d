#include "common/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "common/units.h"

namespace phalanx {
namespace {

// The tenth that stays is for the page cache and what nobody plans.
constexpr double kMemoryRatio = 0.9;

// A number alone in a file, as control groups write it; `otherwise` if absent
// or "max".
int64_t ReadNumber(const std::string& path, int64_t otherwise) {
  std::ifstream in(path);
  int64_t value = 0;
  return in >> value ? value : otherwise;
}

int64_t MemAvailable() {
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (in >> key >> kib) {
    if (key == "MemAvailable:") return kib * kKiB;
    std::getline(in, unit);
  }
  return kGiB;
}

}  // namespace

int64_t AvailableMemoryBytes() {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const int64_t limit = ReadNumber("/sys/fs/cgroup/memory.max", kNone);
  const int64_t used = ReadNumber("/sys/fs/cgroup/memory.current", 0);
  const int64_t free = MemAvailable();
  return limit == kNone ? free : std::clamp<int64_t>(limit - used, 0, free);
}

int64_t DefaultMemoryBudgetBytes(int ranks) {
  const auto planned = static_cast<int64_t>(
      kMemoryRatio * static_cast<double>(AvailableMemoryBytes()));
  return std::max<int64_t>(1, planned / ranks);
}

}  // namespace phalanx
