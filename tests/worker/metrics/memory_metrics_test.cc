#include "worker/metrics/memory_metrics.h"

#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "common/units.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/metric_text.h"

namespace phalanx {
namespace {

std::string Series(const std::string& category, const std::string& component) {
  return "phalanx_device_memory_bytes{category=\"" + category +
         "\",component=\"" + component + "\",device=\"cpu\"}";
}

// Of all series of the family.
double Sum(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  double sum = 0;
  while (std::getline(lines, line))
    if (line.rfind("phalanx_device_memory_bytes{", 0) == 0)
      sum += std::stod(line.substr(line.rfind(' ')));
  return sum;
}

class MemoryMetricsTest : public testing::Test {
 protected:
  MemoryMetricsTest() {
    CpuBackendConfig config;
    config.threads = 1;
    backend_ = std::move(*CreateCpuBackend(config));
    metrics_ = std::make_unique<MemoryMetrics>(
        DeviceFacts{.name = "cpu",
                    .capacity_bytes = 100,
                    .free_bytes = [] { return int64_t{40}; },
                    .budget_bytes = 77,
                    .program_bytes = 1000},
        *backend_, board_, /*comm_bytes=*/4096, registry_);
  }
  double Value(const std::string& series) {
    return SeriesValue(registry_.Text(), series);
  }
  void Enter(WorkerState state) {
    board_.Write([&](WorkerSnapshot& s) { s.state = state; });
  }

  StatusBoard board_;
  MetricRegistry registry_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<MemoryMetrics> metrics_;
};

TEST_F(MemoryMetricsTest, EveryComponentIsThereAtZero) {
  const std::string text = registry_.Text();

  for (const MemoryComponentFacts& facts : kMemoryComponentFacts) {
    if (facts.category == MemoryCategory::kComm) continue;
    EXPECT_EQ(
        SeriesValue(
            text,
            Series(kMemoryCategoryNames[static_cast<size_t>(facts.category)],
                   facts.name)),
        0)
        << facts.name;
  }
}

TEST_F(MemoryMetricsTest, TheBackendsBytesAreUnderTheirComponent) {
  const auto buffer =
      backend_->Allocate(8 * kMiB, MemoryComponent::kKeysValues, "test");

  EXPECT_GE(Value(Series("kv_cache", "keys_values")), 8 * kMiB);
}

TEST_F(MemoryMetricsTest, TheCollectivesShareIsComm) {
  EXPECT_EQ(Value(Series("comm", "communicator")), 4096);
}

TEST_F(MemoryMetricsTest, MemoryOfNoOwnerIsUnattributed) {
  EXPECT_GT(Value(Series("unattributed", "unattributed")), 0);
  EXPECT_EQ(Value("phalanx_device_memory_untouched_bytes{device=\"cpu\"}"), 0);
}

TEST_F(MemoryMetricsTest, TheSumIsWhatTheDriverSeesAndWhatIsUntouched) {
  for (const int64_t bytes : {int64_t{0}, kMiB, 4 * kGiB}) {
    const auto buffer =
        backend_->Allocate(bytes + 64, MemoryComponent::kKeysValues, "test");

    const std::string text = registry_.Text();

    EXPECT_EQ(
        Sum(text),
        SeriesValue(text,
                    "phalanx_device_memory_driver_bytes{device=\"cpu\"}") +
            SeriesValue(
                text, "phalanx_device_memory_untouched_bytes{device=\"cpu\"}"));
  }
}

TEST_F(MemoryMetricsTest, WhatNobodyWroteIsUntouchedAndNothingIsNegative) {
  const auto buffer =
      backend_->Allocate(4 * kGiB, MemoryComponent::kKeysValues, "test");

  EXPECT_GT(Value("phalanx_device_memory_untouched_bytes{device=\"cpu\"}"),
            3 * kGiB);
  EXPECT_EQ(Value(Series("unattributed", "unattributed")), 0);
}

TEST_F(MemoryMetricsTest, CapacityFreeAndBudgetAreFamiliesOfTheirOwn) {
  const std::string text = registry_.Text();

  EXPECT_EQ(
      SeriesValue(text, "phalanx_device_memory_capacity_bytes{device=\"cpu\"}"),
      100);
  EXPECT_EQ(
      SeriesValue(text, "phalanx_device_memory_free_bytes{device=\"cpu\"}"),
      40);
  EXPECT_EQ(
      SeriesValue(text, "phalanx_device_memory_budget_bytes{device=\"cpu\"}"),
      77);
}

TEST_F(MemoryMetricsTest, WhileItLoadsWhatIsMappedBesideTheProgramIsWeights) {
  Enter(WorkerState::kLoading);

  const std::string text = registry_.Text();

  EXPECT_EQ(SeriesValue(text, "phalanx_host_memory_bytes{category=\"other\"}"),
            1000);
  EXPECT_GT(SeriesValue(
                text, "phalanx_host_memory_bytes{category=\"weights_mapped\"}"),
            0);
}

TEST_F(MemoryMetricsTest, OnceLoadedNoWeightsAreMapped) {
  Enter(WorkerState::kForming);

  const std::string text = registry_.Text();

  EXPECT_EQ(SeriesValue(
                text, "phalanx_host_memory_bytes{category=\"weights_mapped\"}"),
            0);
  EXPECT_GT(SeriesValue(text, "phalanx_host_memory_bytes{category=\"other\"}"),
            1000);
}

TEST_F(MemoryMetricsTest, ABankCountsWhole) {
  metrics_->SetBank(kGiB);

  EXPECT_EQ(Value("phalanx_host_memory_bytes{category=\"offloaded_experts\"}"),
            kGiB);
}

TEST(HostMemoryBytes, ThereIsSome) { EXPECT_GT(HostMemoryBytes(), kMiB); }

}  // namespace
}  // namespace phalanx
