#include "common/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "common/log.h"
#include "common/metrics/process_memory.h"
#include "common/version.h"

namespace phalanx {
namespace {

constexpr MetricFacts kBuildInfo = {"phalanx_build_info",
                                    "Always 1; what runs, as labels."};
constexpr MetricFacts kLogMessages = {"phalanx_log_messages_total",
                                      "Lines logged, by level."};
constexpr MetricFacts kStartTime = {
    "process_start_time_seconds",
    "Start of the process, in seconds since the epoch of Unix."};
constexpr MetricFacts kCpu = {"process_cpu_seconds_total",
                              "Processor time used, user and system."};
constexpr MetricFacts kResident = {"process_resident_memory_bytes",
                                   "Resident memory, of files too."};
constexpr MetricFacts kOpenFds = {"process_open_fds", "Open file descriptors."};
constexpr MetricFacts kMaxFds = {"process_max_fds",
                                 "Most file descriptors that may be open."};

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_usec) / 1e6;
}

// Of this process since the boot of the host; 0 where there is no /proc. The
// name of the program, field 2, may hold spaces and parentheses.
double StartTicks() {
  std::ifstream in("/proc/self/stat");
  std::string line;
  std::getline(in, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field.empty() ? 0 : std::stod(field);
}

double BootSeconds() {
  std::ifstream in("/proc/stat");
  std::string key;
  double seconds = 0;
  while (in >> key) {
    if (key == "btime" && in >> seconds) return seconds;
    std::getline(in, key);
  }
  return 0;
}

double StartTime() {
  return BootSeconds() +
         StartTicks() / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double OpenFds() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error))
    ++count;
  return count > 0 ? count - 1 : 0;  // Less the one that reads the folder.
}

void ReadProcess(MetricReadings& readings) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  readings.Counter(kCpu, Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  const ProcessMemory memory = ReadProcessMemory();
  readings.Gauge(kResident, static_cast<double>(memory.anonymous +
                                                memory.shared + memory.file));
  readings.Gauge(kOpenFds, OpenFds());
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  readings.Gauge(kMaxFds, static_cast<double>(limit.rlim_cur));
  const LogLineCounts lines = CountedLogLines();
  readings.Counter(kLogMessages, static_cast<double>(lines.info),
                   {{"level", "info"}});
  readings.Counter(kLogMessages, static_cast<double>(lines.warning),
                   {{"level", "warning"}});
  readings.Counter(kLogMessages, static_cast<double>(lines.error),
                   {{"level", "error"}});
}

}  // namespace

void AddProcessMetrics(const std::string& component, const std::string& backend,
                       MetricRegistry& registry) {
  registry
      .AddGauge(kBuildInfo, {{"component", component},
                             {"version", kVersion},
                             {"revision", PHALANX_REVISION},
                             {"backend", backend}})
      .Set(1);
  registry.AddGauge(kStartTime).Set(StartTime());
  registry.AddReader(ReadProcess);
}

}  // namespace phalanx
