#include "worker/bench/model_figures.h"

#include <gtest/gtest.h>

#include "tests/worker/bench/example_report.h"

namespace phalanx {
namespace {

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
  report.facts.weights = WeightFormat::kInt8;
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

TEST(FiguresOf, HoldEachProductAgainstWhatBindsIt) {
  // 0.3 s to read one, 0.4 s to compute the other, 0.05 s to read caches, of 1.
  EXPECT_DOUBLE_EQ(*Figures(Report()).roof_share, 0.75);
}

TEST(FiguresOf, HoldAPartAgainstItsOwnTime) {
  const CaseFigures f = Figures(Report());

  EXPECT_DOUBLE_EQ(*f.part_roof_shares[static_cast<size_t>(Part::kDense)], 0.6);
  EXPECT_DOUBLE_EQ(*f.part_roof_shares[static_cast<size_t>(Part::kHead)], 2);
}

TEST(FiguresOf, GiveNoRoofToAPartThatTookNoTime) {
  EXPECT_EQ(
      Figures(Report()).part_roof_shares[static_cast<size_t>(Part::kExperts)],
      std::nullopt);
}

TEST(FiguresOf, GiveNoRoofToAPartThatIsNoWeights) {
  EXPECT_EQ(Figures(Report()).part_roof_shares[static_cast<size_t>(Part::kGdn)],
            std::nullopt);
}

TEST(FiguresOf, CountTheRoofOfAllRanks) {
  ModelReport report = Report();
  report.tp_size = 2;

  EXPECT_DOUBLE_EQ(*Figures(report).roof_share, 1.5);
}

TEST(FiguresOf, TakeRoofsThatASampleDidNotLookAtFromTheWholeBench) {
  ModelReport report = Report();
  for (ModelSample& sample : report.cases[0].samples) sample.roofs.bf16_dot = 0;
  report.before.all = {.read = 1, .bf16_dot = 6000};
  report.after.all = {.read = 1, .bf16_dot = 2000};

  EXPECT_DOUBLE_EQ(*Figures(report).roof_share, 0.75);
}

TEST(FiguresOf, HaveNoRoofWhereTheMachineHasNoSuchInstruction) {
  ModelReport report = Report();
  for (ModelSample& sample : report.cases[0].samples)
    sample.run.work.products.Add(
        {.part = Part::kDense, .peak = Peak::kInt8, .bytes = 1, .flops = 1});

  EXPECT_EQ(Figures(report).roof_share, std::nullopt);
}

}  // namespace
}  // namespace phalanx
