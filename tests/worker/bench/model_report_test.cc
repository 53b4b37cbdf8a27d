#include "worker/bench/model_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "tests/worker/bench/example_report.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ModelJson, HasFiguresAndParts) {
  const auto json = nlohmann::json::parse(ModelJson(Report()));

  EXPECT_EQ(json["peak_over_planned"], 1.1);
  const auto& c = json["cases"][0];
  EXPECT_EQ(c["kind"], "decode");
  EXPECT_EQ(c["tokens_per_second"], 4);
  EXPECT_EQ(c["parts"]["dense"], 0.5);
  EXPECT_TRUE(c["over_tp1"].is_null());
}

TEST(ModelJson, HasTheRoofOfAPassAndOfEachPartOfWeights) {
  const auto json = nlohmann::json::parse(ModelJson(Report()));

  const auto& c = json["cases"][0];
  EXPECT_DOUBLE_EQ(c["roof_share"], 0.75);
  EXPECT_DOUBLE_EQ(c["part_roof_shares"]["dense"], 0.6);
  EXPECT_TRUE(c["part_roof_shares"]["experts"].is_null());
  EXPECT_FALSE(c["part_roof_shares"].contains("gdn"));
}

TEST(ModelJson, WhatWasThrownAwayIsNull) {
  ModelReport report = Report();
  report.cases[0].samples.clear();

  EXPECT_TRUE(
      nlohmann::json::parse(ModelJson(report))["cases"][0]["tokens_per_second"]
          .is_null());
}

TEST(ModelJson, ReplacesWhatIsNoUtf8InAFoldersName) {
  ModelReport report = Report();
  report.model_dir = "/models/\xff";

  EXPECT_EQ(nlohmann::json::parse(ModelJson(report))["model"],
            "/models/\xEF\xBF\xBD");
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
