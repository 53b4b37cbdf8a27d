#include "common/metrics/process_metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>

#include "common/log.h"
#include "common/metrics/process_memory.h"
#include "common/units.h"
#include "tests/support/metric_text.h"

namespace phalanx {
namespace {

class ProcessMetricsTest : public testing::Test {
 protected:
  ProcessMetricsTest() { AddProcessMetrics("tester", "cpu", registry_); }
  double Value(const char* series) {
    return SeriesValue(registry_.Text(), series);
  }

  MetricRegistry registry_;
};

TEST_F(ProcessMetricsTest, TheProcessStartedJustNow) {
  const double now = std::chrono::duration<double>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();

  // Boot time and ticks are whole seconds and hundredths.
  EXPECT_NEAR(Value("process_start_time_seconds"), now, 120);
}

TEST_F(ProcessMetricsTest, OpenFilesAreCounted) {
  const double before = Value("process_open_fds");
  const int fd = dup(STDERR_FILENO);
  const double after = Value("process_open_fds");
  close(fd);

  EXPECT_EQ(after, before + 1);
}

TEST_F(ProcessMetricsTest, ProcessorTimeGrows) {
  const double before = Value("process_cpu_seconds_total");
  volatile double sum = 0;
  while (Value("process_cpu_seconds_total") == before)
    for (int i = 0; i < 100'000; ++i) sum = sum + i;

  EXPECT_GT(Value("process_cpu_seconds_total"), before);
}

TEST_F(ProcessMetricsTest, LinesAreCountedByLevel) {
  const char kWarnings[] = "phalanx_log_messages_total{level=\"warning\"}";
  const char kErrors[] = "phalanx_log_messages_total{level=\"error\"}";
  const double warnings = Value(kWarnings);
  const double errors = Value(kErrors);

  LogWarning("test", "one");
  LogError("test", "two");
  LogError("test", "three");

  EXPECT_EQ(Value(kWarnings), warnings + 1);
  EXPECT_EQ(Value(kErrors), errors + 2);
}

TEST_F(ProcessMetricsTest, BuildInfoSaysWhatRuns) {
  EXPECT_EQ(Value("phalanx_build_info{backend=\"cpu\",component=\"tester\","
                  "revision=\"unknown\",version=\"0.1.0\"}"),
            1);
}

TEST(ProcessMemory, TouchedMemoryIsCounted) {
  constexpr int64_t kBytes = 64 * kMiB;
  const ProcessMemory before = ReadProcessMemory();
  auto memory = std::make_unique<char[]>(kBytes);
  std::memset(memory.get(), 1, kBytes);
  const ProcessMemory after = ReadProcessMemory();

  EXPECT_GE(after.anonymous, before.anonymous + kBytes - 4 * kMiB);
  EXPECT_EQ(memory[kBytes - 1], 1);
}

}  // namespace
}  // namespace phalanx
