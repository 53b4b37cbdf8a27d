#ifndef PHALANX_WORKER_METRICS_MEMORY_METRICS_H_
#define PHALANX_WORKER_METRICS_MEMORY_METRICS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "common/metrics/metric_registry.h"
#include "common/metrics/process_memory.h"
#include "kernels/backend.h"
#include "worker/engine/status_board.h"

namespace phalanx {

// Memory of a device that is the host: what a driver would say.
struct DeviceFacts {
  std::string name = "cpu";
  int64_t capacity_bytes = 0;
  std::function<int64_t()> free_bytes;
  int64_t budget_bytes = 0;  // What this rank may hold; 0: nobody said.
  // Pages of files that the process had in memory before it mapped weights.
  int64_t program_bytes = 0;
};

// Who holds the bytes of the device and of the host, read when scraped.
//
// On the CPU the driver's figure is what the process has of its own in memory:
// RssAnon + RssShmem. Tracked bytes count from their allocation on, whether
// touched yet or not, as they would on a GPU. So
//   sum of device_memory_bytes = device_memory_driver_bytes
//                              + device_memory_untouched_bytes
// always, with `unattributed` = driver - tracked where that is positive, and
// `untouched` = tracked - driver where that is: pages of caches that nobody has
// written, less whatever is unattributed beside them.
//
// Made by main; outlives the registry's last scrape. SetBank: any thread.
class MemoryMetrics {
 public:
  // `comm_bytes`: this rank's share of the collective's segment, which the
  // backend knows nothing of. Backend and board are lent.
  MemoryMetrics(DeviceFacts device, const Backend& backend,
                const StatusBoard& board, int64_t comm_bytes,
                MetricRegistry& registry);

  // The experts' bank on the host, if there is one.
  void SetBank(int64_t bytes) { bank_bytes_.store(bytes); }

 private:
  void Read(MetricReadings& readings) const;
  void ReadDevice(const ProcessMemory& memory, MetricReadings& readings) const;
  void ReadHost(const ProcessMemory& memory, MetricReadings& readings) const;

  const DeviceFacts device_;
  const Backend& backend_;
  const StatusBoard& board_;
  const int64_t comm_bytes_;
  std::atomic<int64_t> bank_bytes_{0};
};

// Memory of this host, cut to what the control group allows; 0 if unknown.
int64_t HostMemoryBytes();

}  // namespace phalanx

#endif  // PHALANX_WORKER_METRICS_MEMORY_METRICS_H_
