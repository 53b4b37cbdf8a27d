#include "worker/capacity.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "common/units.h"
#include "worker/model/qwen35_moe.h"

namespace phalanx {
namespace {

// A number alone in a file, as control groups write it; none if absent or
// "max".
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

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

CpuShare ShareCpus(const std::vector<int>& allowed, int rank, int tp_size,
                   int threads) {
  const int count = static_cast<int>(allowed.size());
  CpuShare share;
  share.threads = threads > 0 ? threads : std::max(1, count / tp_size);
  share.spin = share.threads * tp_size <= count;
  if (share.spin) {
    const auto first = allowed.begin() + rank * share.threads;
    share.cpus.assign(first, first + share.threads);
  }
  return share;
}

int64_t AvailableMemoryBytes() {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const int64_t limit = ReadNumber("/sys/fs/cgroup/memory.max", kNone);
  const int64_t used = ReadNumber("/sys/fs/cgroup/memory.current", 0);
  const int64_t free = MemAvailable();
  return limit == kNone ? free : std::clamp<int64_t>(limit - used, 0, free);
}

absl::StatusOr<SchedulerLimits> PlanCapacity(const WorkerConfig& flags,
                                             const ModelConfig& config,
                                             const LocalShape& local, DType act,
                                             int64_t available_bytes) {
  if (flags.max_model_len > config.max_position_embeddings)
    return absl::InvalidArgumentError(
        absl::StrCat("--max-model-len is ", flags.max_model_len,
                     "; the model's max_position_embeddings is ",
                     config.max_position_embeddings));
  SchedulerLimits limits;
  limits.max_running = flags.max_running;
  limits.max_waiting = flags.max_waiting;
  limits.max_model_len = flags.max_model_len > 0
                             ? flags.max_model_len
                             : config.max_position_embeddings;
  limits.prefill_chunk = flags.prefill_chunk;
  limits.step_tokens = flags.prefill_chunk + flags.max_running;
  limits.state_slots = flags.max_running;
  limits.vocab_size = config.vocab_size;
  const int64_t context = CeilDivide(limits.max_model_len, limits.block_tokens);
  const int64_t block_bytes =
      std::max<int64_t>(1, Qwen35Moe::KvShape(config, local).block_bytes(act));
  const int64_t affordable = available_bytes / 4 / local.tp_size / block_bytes;
  limits.kv_blocks =
      flags.kv_blocks > 0
          ? flags.kv_blocks
          : std::max<int64_t>(
                1, std::min(flags.max_running * context, affordable));
  RETURN_IF_ERROR(ValidateLimits(limits));
  return limits;
}

}  // namespace phalanx
