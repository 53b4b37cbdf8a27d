#include "worker/bench/machine_probe.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_roof_loops.h"

namespace phalanx {
namespace {

TEST(MachineProbe, ReadsMoreThanFourTimesTheCache) {
  const int64_t cache_bytes = int64_t{100} << 20;

  const MachineProbe probe(
      {.loops = CpuRoofLoops(), .cpus = {0}, .cache_bytes = cache_bytes});

  EXPECT_GT(probe.set_bytes(), 4 * cache_bytes);
}

TEST(MachineProbe, MeasuresOnlyWhatAPeakNeeds) {
  MachineProbe probe({.loops = CpuRoofLoops(), .cpus = {0}, .cache_bytes = 0});

  const Roofs roofs = probe.MeasureAll(Peak::kF32);

  EXPECT_GT(roofs.read, 1e6);
  EXPECT_GT(roofs.f32_fma, 1e6);
  EXPECT_EQ(roofs.bf16_dot, 0);
  EXPECT_EQ(roofs.int8_dot, 0);
}

TEST(MachineProbe, OneCoreHasNobodyToPlayWith) {
  MachineProbe probe({.loops = CpuRoofLoops(), .cpus = {0}, .cache_bytes = 0});

  EXPECT_EQ(probe.Measure().ping_pong_seconds, 0);
}

}  // namespace
}  // namespace phalanx
