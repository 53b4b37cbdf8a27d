#include "worker/bench/kernel_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// A product of 2000 bytes and 600 operations in 4 s of a machine that reads
// 1000 bytes and does 200 operations a second.
KernelReport Report() {
  KernelReport report;
  report.processor = "A processor";
  report.threads = 2;
  report.cases = {
      {.work = {.name = "product",
                .format = "bf16",
                .rows = 8,
                .bytes = 2000,
                .flops = 600,
                .peak = Peak::kBf16},
       .count = {.kept = 1, .thrown = 2},
       .samples = {{.seconds = 4, .roofs = {.read = 1000, .bf16_dot = 200}}}}};
  report.left_out = {"product int8: there is none"};
  return report;
}

TEST(RoofShare, IsOfTheLongerOfBytesAndOperations) {
  const KernelReport report = Report();
  const KernelCaseReport& c = report.cases[0];
  KernelWork wide = c.work;
  wide.bytes = 3500;

  EXPECT_DOUBLE_EQ(RoofShare(c.work, c.samples[0], 0), 0.75);
  EXPECT_DOUBLE_EQ(RoofShare(wide, c.samples[0], 0), 0.875);
}

TEST(RoofShare, IsZeroWhereTheMachineHasNoSuchPeak) {
  const KernelReport report = Report();
  KernelWork work = report.cases[0].work;
  work.peak = Peak::kInt8;

  EXPECT_EQ(RoofShare(work, report.cases[0].samples[0], 0), 0);
}

TEST(RoofShare, OfWhatGoesToAndFroIsOfThatTime) {
  KernelWork work;
  work.to_and_fro = true;

  EXPECT_DOUBLE_EQ(RoofShare(work, {.seconds = 4, .roofs = {}}, 1), 0.25);
}

TEST(KernelJson, HasTheFiguresOfACase) {
  const auto json = nlohmann::json::parse(KernelJson(Report()));

  const auto& c = json["cases"][0];
  EXPECT_EQ(c["seconds"], 4);
  EXPECT_EQ(c["read_bytes_per_second"], 500);
  EXPECT_EQ(c["flops_per_second"], 150);
  EXPECT_EQ(c["roof_share"], 0.75);
  EXPECT_EQ(c["thrown"], 2);
}

TEST(KernelJson, WhatWasThrownAwayIsNull) {
  KernelReport report = Report();
  report.cases[0].samples.clear();

  EXPECT_TRUE(
      nlohmann::json::parse(KernelJson(report))["cases"][0]["roof_share"]
          .is_null());
}

TEST(KernelText, FitsATerminalAndSaysWhatIsMissing) {
  const std::string text = KernelText(Report());

  EXPECT_THAT(text, HasSubstr("2 samples were thrown away"));
  EXPECT_THAT(text, HasSubstr("Left out: product int8: there is none."));
  for (const absl::string_view line : absl::StrSplit(text, '\n'))
    EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace phalanx
