#include "worker/bench/model_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

// Passes that read 900 bytes of weights and 100 of caches and do 2000
// operations a pass, on a machine that reads 2000 bytes and does 4000
// operations a second.
ModelSample SampleOf(int64_t passes, double seconds) {
  const double n = static_cast<double>(passes);
  return {.run = {.passes = passes,
                  .seconds = seconds,
                  .work = {.weight_bytes = 900 * n,
                           .cache_bytes = 100 * n,
                           .flops = 2000 * n,
                           .experts = 20 * n,
                           .expert_layers = 4 * n,
                           .hits = 3 * n,
                           .fetches = 1 * n,
                           .fetched_bytes = 80 * n},
                  .parts = {}},
          .tp1 = std::nullopt,
          .roofs = {.read = 2000, .bf16_dot = 4000}};
}

PartSeconds Parts(double dense, double head, double gdn) {
  PartSeconds parts = {};
  parts[static_cast<size_t>(Part::kDense)] = dense;
  parts[static_cast<size_t>(Part::kHead)] = head;
  parts[static_cast<size_t>(Part::kGdn)] = gdn;
  return parts;
}

// Four sequences that decode, a second a step, in a model of 4 layers.
ModelReport Report() {
  ModelReport report;
  report.model_dir = "model";
  report.processor = "A processor";
  report.layers = 4;
  report.facts.weights = "bf16";
  report.facts.moe_mode = "resident";
  report.facts.planned_bytes = 1000;
  report.peak_bytes = 1100;
  report.cases = {
      {.c = {CaseKind::kDecode, 4, 0},
       .count = {.kept = 3, .thrown = 1},
       .samples = {SampleOf(2, 1.8), SampleOf(2, 2), SampleOf(2, 2.4)},
       .timed = {.passes = 1,
                 .seconds = 1,
                 .work = {},
                 .parts = Parts(0.5, 0.2, 0.1)}}};
  return report;
}

CaseFigures Figures(const ModelReport& report) {
  return *FiguresOf(report.cases[0], report);
}

TEST(FiguresOf, AreMediansOfSamples) {
  const CaseFigures f = Figures(Report());

  EXPECT_DOUBLE_EQ(f.pass_seconds, 1);
  EXPECT_DOUBLE_EQ(f.tokens_per_second, 4);
  EXPECT_DOUBLE_EQ(f.weight_bytes, 900);
  EXPECT_DOUBLE_EQ(f.experts_per_layer, 5);
}

TEST(FiguresOf, AreSharesOfTheMachineOfTheMinute) {
  const CaseFigures f = Figures(Report());

  EXPECT_DOUBLE_EQ(f.read_share, 0.5);
  EXPECT_DOUBLE_EQ(f.weights_read_share, 0.45);
  EXPECT_DOUBLE_EQ(f.peak_share, 0.5);
}

TEST(FiguresOf, CountTheWorkOfAllRanks) {
  ModelReport report = Report();
  report.tp_size = 2;

  EXPECT_DOUBLE_EQ(Figures(report).read_share, 1);
}

TEST(FiguresOf, HoldInt8AgainstItsOwnPeak) {
  ModelReport report = Report();
  report.facts.weights = "int8";
  for (ModelSample& sample : report.cases[0].samples)
    sample.roofs.int8_dot = 8000;

  EXPECT_DOUBLE_EQ(Figures(report).peak_share, 0.25);
}

TEST(FiguresOf, WhatNoOpTookIsNoWeights) {
  EXPECT_DOUBLE_EQ(Figures(Report()).not_weights_share, 0.3);
}

TEST(FiguresOf, ProjectAllButTheHead) {
  // Of a second, 0.2 are the head's and 0.8 those of 4 layers.
  EXPECT_DOUBLE_EQ(*Figures(Report()).projected_tokens_per_second, 4 / 8.2);
}

TEST(FiguresOf, ProjectNothingOfAModelThatIsAsDeep) {
  ModelReport report = Report();
  report.layers = 40;

  EXPECT_EQ(Figures(report).projected_tokens_per_second, std::nullopt);
}

TEST(FiguresOf, HoldAGroupAgainstOneRankRoundByRound) {
  ModelReport report = Report();
  report.tp_size = 2;
  for (ModelSample& sample : report.cases[0].samples) {
    sample.tp1 = sample.run;
    sample.tp1->seconds *= 0.9;
  }

  EXPECT_DOUBLE_EQ(*Figures(report).over_tp1, 0.9);
}

TEST(FiguresOf, TellOfFetchesInOffloadOnly) {
  ModelReport report = Report();
  EXPECT_EQ(Figures(report).hit_rate, std::nullopt);
  report.facts.moe_mode = "offload";

  EXPECT_DOUBLE_EQ(*Figures(report).hit_rate, 0.75);
  EXPECT_DOUBLE_EQ(*Figures(report).fetched_bytes_per_token, 20);
}

TEST(FiguresOf, AreNoneWhereAllSamplesWereThrownAway) {
  ModelReport report = Report();
  report.cases[0].samples.clear();

  EXPECT_EQ(FiguresOf(report.cases[0], report), std::nullopt);
}

TEST(ModelJson, HasFiguresAndParts) {
  const auto json = nlohmann::json::parse(ModelJson(Report()));

  EXPECT_EQ(json["peak_over_planned"], 1.1);
  const auto& c = json["cases"][0];
  EXPECT_EQ(c["kind"], "decode");
  EXPECT_EQ(c["tokens_per_second"], 4);
  EXPECT_EQ(c["parts"]["dense"], 0.5);
  EXPECT_TRUE(c["over_tp1"].is_null());
}

TEST(ModelJson, WhatWasThrownAwayIsNull) {
  ModelReport report = Report();
  report.cases[0].samples.clear();

  EXPECT_TRUE(
      nlohmann::json::parse(ModelJson(report))["cases"][0]["tokens_per_second"]
          .is_null());
}

TEST(ModelText, FitsATerminalWithAllColumns) {
  ModelReport report = Report();
  report.tp_size = 2;
  report.facts.moe_mode = "offload";
  report.cases[0].c = {CaseKind::kPrefill, 2048, 32768};

  for (const absl::string_view line : absl::StrSplit(ModelText(report), '\n'))
    EXPECT_LE(line.size(), 100u) << line;
}

TEST(ModelText, SaysWhatWasThrownAwayAndWhatIsProjected) {
  EXPECT_THAT(ModelText(Report()), HasSubstr("1 sample was thrown away"));
  EXPECT_THAT(ModelText(Report()),
              HasSubstr("Projected to 40 layers, not measured"));
}

TEST(ModelText, IsSilentAboutAProjectionThatThereIsNot) {
  ModelReport report = Report();
  report.layers = 40;

  EXPECT_THAT(ModelText(report), Not(HasSubstr("rojected")));
}

}  // namespace
}  // namespace phalanx
