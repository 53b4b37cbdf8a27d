#include "common/log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace phalanx {
namespace {

// The one line that `log` writes. Standard error is no terminal while it is
// captured, so lines are JSON.
template <typename Log>
nlohmann::json LineOf(Log log) {
  testing::internal::CaptureStderr();
  log();
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << line;
  return json;
}

TEST(Log, ALineSaysWhatWhereAndWhen) {
  const auto line = LineOf([] {
    LogWarning("router", "group lost", {{"epoch", 7}});
  });
  EXPECT_EQ(line["level"], "WARNING");
  EXPECT_EQ(line["module"], "router");
  EXPECT_EQ(line["event"], "group lost");
  EXPECT_EQ(line["epoch"], 7);
  const std::string time = line["time"];
  EXPECT_EQ(time.size(), std::string("2026-11-29T12:00:00.000Z").size());
  EXPECT_EQ(time.back(), 'Z');
}

TEST(Log, NumbersAndBoolsHaveNoQuotes) {
  const auto line = LineOf([] {
    LogInfo("m", "e",
            {{"i", int64_t{-5}}, {"d", 0.25}, {"f", 0.5f}, {"b", true}});
  });
  EXPECT_EQ(line["i"], -5);
  EXPECT_EQ(line["d"], 0.25);
  EXPECT_EQ(line["f"], 0.5);
  EXPECT_EQ(line["b"], true);
}

TEST(Log, ANumberThatJsonLacksIsNull) {
  const auto line = LineOf([] {
    LogInfo("m", "e", {{"nan", std::nan("")}, {"inf", INFINITY}});
  });
  EXPECT_TRUE(line["nan"].is_null());
  EXPECT_TRUE(line["inf"].is_null());
}

TEST(Log, TextIsEscaped) {
  const std::string text = "a \"b\"\n\x1b[31m\\";
  EXPECT_EQ(LineOf([&] { LogInfo("m", "e", {{"t", text}}); })["t"], text);
}

TEST(Log, InvalidUtf8IsReplaced) {
  EXPECT_EQ(LineOf([] {
              LogInfo("m", "e", {{"t", "a\xff\xc3"}});
            })["t"],
            "a\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Log, AValueIsCut) {
  const std::string longer(100'000, 'x');
  const auto line = LineOf([&] { LogError("m", "e", {{"t", longer}}); });
  EXPECT_EQ(line["t"], std::string(2048, 'x'));
}

TEST(Log, ContextIsInEveryLine) {
  SetLogContext({{"rank", 3}});
  EXPECT_EQ(LineOf([] { LogInfo("m", "e"); })["rank"], 3);
  SetLogContext({});
}

}  // namespace
}  // namespace phalanx
