#include "worker/metrics/memory_metrics.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "common/units.h"
#include "kernels/memory.h"

namespace phalanx {
namespace {

constexpr MetricFacts kDevice = {
    "phalanx_device_memory_bytes",
    "Bytes held on the device, by what they are for. The sum is "
    "phalanx_device_memory_driver_bytes + "
    "phalanx_device_memory_untouched_bytes."};
constexpr MetricFacts kDriver = {
    "phalanx_device_memory_driver_bytes",
    "Bytes that the process holds as the driver sees it; on a cpu, RssAnon + "
    "RssShmem."};
constexpr MetricFacts kUntouched = {
    "phalanx_device_memory_untouched_bytes",
    "Bytes that are allocated and that the driver does not count yet, since "
    "nothing was written there; at least."};
constexpr MetricFacts kCapacity = {"phalanx_device_memory_capacity_bytes",
                                   "Memory of the device."};
constexpr MetricFacts kFree = {"phalanx_device_memory_free_bytes",
                               "Memory of the device that nobody uses."};
constexpr MetricFacts kBudget = {"phalanx_device_memory_budget_bytes",
                                 "What this rank may hold at most."};
constexpr MetricFacts kHost = {
    "phalanx_host_memory_bytes",
    "Bytes of the host beside the device's, by what they are for. A bank of "
    "experts counts whole, on each rank that maps it."};
constexpr MetricFacts kPinned = {"phalanx_host_memory_pinned_bytes",
                                 "Bytes that cannot be swapped out."};

constexpr char kUnattributed[] = "unattributed";

double Number(int64_t bytes) { return static_cast<double>(bytes); }

}  // namespace

MemoryMetrics::MemoryMetrics(DeviceFacts device, const Backend& backend,
                             const StatusBoard& board, int64_t comm_bytes,
                             MetricRegistry& registry)
    : device_(std::move(device)),
      backend_(backend),
      board_(board),
      comm_bytes_(comm_bytes) {
  registry.AddReader([this](MetricReadings& readings) { Read(readings); });
}

void MemoryMetrics::Read(MetricReadings& readings) const {
  const ProcessMemory memory = ReadProcessMemory();
  ReadDevice(memory, readings);
  ReadHost(memory, readings);
}

void MemoryMetrics::ReadDevice(const ProcessMemory& memory,
                               MetricReadings& readings) const {
  int64_t tracked = 0;
  for (int i = 0; i < kMemoryComponents; ++i) {
    const auto component = static_cast<MemoryComponent>(i);
    const MemoryComponentFacts& facts = kMemoryComponentFacts[i];
    int64_t bytes = backend_.allocated_bytes(component);
    if (component == MemoryComponent::kCommunicator) bytes += comm_bytes_;
    tracked += bytes;
    readings.Gauge(
        kDevice, Number(bytes),
        {{"device", device_.name},
         {"category", kMemoryCategoryNames[static_cast<int>(facts.category)]},
         {"component", facts.name}});
  }
  const int64_t driver = memory.anonymous + memory.shared;
  const MetricLabels labels = {{"device", device_.name}};
  readings.Gauge(kDevice, Number(std::max<int64_t>(driver - tracked, 0)),
                 {{"device", device_.name},
                  {"category", kUnattributed},
                  {"component", kUnattributed}});
  readings.Gauge(kDriver, Number(driver), labels);
  readings.Gauge(kUntouched, Number(std::max<int64_t>(tracked - driver, 0)),
                 labels);
  readings.Gauge(kCapacity, Number(device_.capacity_bytes), labels);
  readings.Gauge(kFree, Number(device_.free_bytes()), labels);
  readings.Gauge(kBudget, Number(device_.budget_bytes), labels);
}

// What grows beside the program's own files is the checkpoint while it is read,
// and later the bank, if there is one.
void MemoryMetrics::ReadHost(const ProcessMemory& memory,
                             MetricReadings& readings) const {
  const int64_t bank = bank_bytes_.load();
  const bool loading = board_.Read().state == WorkerState::kLoading;
  const int64_t program = loading || bank > 0
                              ? std::min(memory.file, device_.program_bytes)
                              : memory.file;
  const auto show = [&](const char* category, int64_t bytes) {
    readings.Gauge(kHost, Number(bytes), {{"category", category}});
  };
  show("offloaded_experts", bank);
  show("staging", 0);
  show("kv_offload", 0);
  show("prefix_cache", 0);
  show("weights_mapped", loading ? memory.file - program : 0);
  show("other", program);
  readings.Gauge(kPinned, Number(memory.locked));
}

int64_t HostMemoryBytes() {
  int64_t bytes = 0;
  std::ifstream info("/proc/meminfo");
  std::string key;
  if (info >> key >> bytes) bytes *= kKiB;  // MemTotal is its first line.
  for (const char* path : {"/sys/fs/cgroup/memory.max",
                           "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t limit = 0;
    if (std::ifstream(path) >> limit && limit > 0)
      bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace phalanx
