// The small templates of tests/golden/chat/jinja_cases.json, rendered by
// jinja2 3.1.6, against ours.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <string>

#include "gateway/chat/jinja/json.h"
#include "gateway/chat/jinja/template.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace phalanx::jinja {
namespace {

using Json = nlohmann::ordered_json;

// 2026-01-15 09:30:00 UTC, what the golden renderings call now.
constexpr int64_t kNow = 1768469400;

Json ReadCases() {
  std::ifstream file(GOLDEN_DIR "/chat/jinja_cases.json");
  return Json::parse(file, nullptr, /*allow_exceptions=*/false);
}

Value ContextOf(const Json& json) {
  const std::string text =
      json.contains("context") ? json["context"].dump() : "{}";
  return ParseJson(text).value();
}

class JinjaCases : public testing::TestWithParam<size_t> {
 protected:
  static const Json& cases() {
    static const Json* const kCases = new Json(ReadCases());
    return *kCases;
  }
};

TEST_P(JinjaCases, GiveWhatJinjaGives) {
  const Json& golden = cases()[GetParam()];
  const std::string source = golden["template"].get<std::string>();
  SCOPED_TRACE(source);
  RenderOptions options;
  options.now_unix_seconds = kNow;

  const auto parsed = Template::Parse(source);
  if (golden.contains("error") && golden["when"] == "parse") {
    EXPECT_FALSE(parsed.ok());
    return;
  }
  ASSERT_OK(parsed);
  const Value context = ContextOf(golden);
  const auto text = (*parsed)->Render(context.mapping(), options);

  if (!golden.contains("error")) {
    ASSERT_OK(text);
    EXPECT_EQ(*text, golden["text"].get<std::string>());
  } else if (golden["kind"] == "TemplateError") {
    EXPECT_THAT(text, StatusIs(absl::StatusCode::kInvalidArgument,
                               golden["error"].get<std::string>()));
  } else {
    EXPECT_THAT(text, StatusIs(absl::StatusCode::kInvalidArgument,
                               testing::StartsWith("template line ")));
  }
}

constexpr size_t kCases = 177;

TEST(JinjaCasesFile, HoldsAsManyCasesAsAreTested) {
  EXPECT_EQ(ReadCases().size(), kCases);
}

INSTANTIATE_TEST_SUITE_P(Golden, JinjaCases, testing::Range(size_t{0}, kCases));

}  // namespace
}  // namespace phalanx::jinja
