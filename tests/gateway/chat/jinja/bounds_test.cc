// Nothing that a template or its variables can say crashes or goes on for
// ever.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "gateway/chat/jinja/json.h"
#include "gateway/chat/jinja/template.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace phalanx::jinja {
namespace {

using nlohmann::ordered_json;

std::string Repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

absl::StatusOr<std::string> Render(const std::string& source,
                                   const RenderOptions& options = {}) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return (*parsed)->Render(Mapping(), options);
}

// Ends with an error that says so.
class JinjaBounds
    : public testing::TestWithParam<std::pair<const char*, std::string>> {};

TEST_P(JinjaBounds, AreErrors) {
  RenderOptions options;
  options.max_steps = 1'000'000;
  options.max_text_bytes = 8'000'000;
  EXPECT_THAT(Render(GetParam().second, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr(GetParam().first)));
}

INSTANTIATE_TEST_SUITE_P(
    All, JinjaBounds,
    testing::Values(
        std::pair("must be at most", std::string(kMaxTemplateBytes + 1, 'x')),
        std::pair("range too big", "{% for i in range(10**9) %}{% endfor %}"),
        std::pair("steps",
                  "{% for i in range(99999) %}"
                  "{% for k in range(99999) %}{% endfor %}"
                  "{% endfor %}"),
        std::pair("nested deeper", "{{ " + Repeat("(", 100'000) + "1" +
                                       Repeat(")", 100'000) + " }}"),
        std::pair("nested deeper", "{{ " + Repeat("not ", 100'000) + "1 }}"),
        std::pair("nested deeper", "{{ " + Repeat("-", 100'000) + "1 }}"),
        std::pair("nested deeper", "{{ " + Repeat("[", 100'000) + "1" +
                                       Repeat("]", 100'000) + " }}"),
        std::pair("nested deeper", "{{ 1" + Repeat("+1", 100'000) + " }}"),
        std::pair("nested deeper", "{{ x" + Repeat(".a", 100'000) + " }}"),
        std::pair("nested deeper", Repeat("{% if 1 %}", 30'000)),
        std::pair("nested deeper", "{% for " + Repeat("(", 100'000) + "a" +
                                       Repeat(")", 100'000) + " in x %}"),
        std::pair("nested deeper",
                  "{% macro f() %}{{ f() }}{% endmacro %}"
                  "{{ f() }}"),
        std::pair("nested deeper",
                  "{% set ns = namespace(a=[]) %}{% for i in range(9999) %}"
                  "{% set ns.a = [ns.a] %}{% endfor %}"),
        std::pair("nested deeper",
                  "{% set ns = namespace(a=0) %}{% for i in range(9999) %}"
                  "{% set ns.a = cycler(ns.a) %}{% endfor %}"),
        std::pair("nested deeper",
                  "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}"),
        std::pair("nested deeper",
                  "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
        std::pair("bytes",
                  "{% set ns = namespace(a='x') %}{% for i in range(99) %}"
                  "{% set ns.a = ns.a ~ ns.a %}{% endfor %}"),
        std::pair("bytes", "{{ 'ab' * 10**15 }}"),
        std::pair("bytes", "{{ 'a' | center(10**12) }}"),
        std::pair("bytes", "{{ 'a\nb' | indent(10**12) }}"),
        std::pair("",
                  "{{ '%*d' % (10**9, 1) }}{{ '{:>9999999999}'.format(1) }}"),
        std::pair("", "{{ ('a' * 10**6).replace('', 'b' * 10**6) }}"),
        std::pair("steps",
                  "{% set ns = namespace(a=[1]) %}"
                  "{% for i in range(99) %}"
                  "{% set ns.a = ns.a + ns.a %}{% endfor %}"),
        // Small values that are large trees.
        std::pair("bytes",
                  "{% set ns = namespace(a=[1]) %}"
                  "{% for i in range(99) %}"
                  "{% set ns.a = [ns.a, ns.a] %}{% endfor %}"
                  "{{ ns.a | tojson }}"),
        std::pair("steps",
                  "{% set ns = namespace(a=[1], b=[1]) %}"
                  "{% for i in range(99) %}"
                  "{% set ns.a = [ns.a, ns.a] %}"
                  "{% set ns.b = [ns.b, ns.b] %}{% endfor %}"
                  "{{ ns.a == ns.b }}"),
        std::pair("unhashable",
                  "{% set ns = namespace(a=(1,)) %}"
                  "{% for i in range(99) %}"
                  "{% set ns.a = (ns.a, ns.a) %}{% endfor %}"
                  "{{ {ns.a: 1} }}"),
        std::pair("128 bits", "{{ 10**99 }}"),
        std::pair("128 bits", "{{ " + std::string(99, '9') + " }}")));

TEST(JinjaBoundsOfOptions, LimitTheOutput) {
  RenderOptions options;
  options.max_text_bytes = 100;
  EXPECT_THAT(Render("{% for i in range(99) %}ab{% endfor %}", options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("100 bytes")));
}

TEST(JinjaBoundsOfOptions, LimitTheSteps) {
  RenderOptions options;
  options.max_steps = 100;
  EXPECT_THAT(Render("{% for i in range(99) %}{{ i }}{% endfor %}", options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("100 steps")));
}

TEST(JinjaErrors, NameTheLine) {
  EXPECT_THAT(Render("a\n{% if true %}\n{{ missing.x }}\n{% endif %}"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       std::string("template line 3: 'missing' is undefined")));
}

TEST(JinjaJson, RefusesDeepNesting) {
  EXPECT_THAT(ParseJson(std::string(100'000, '[')),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("nested deeper")));
}

TEST(JinjaJson, RefusesWhatIsNoUtf8) {
  EXPECT_FALSE(ParseJson("\"\xff\"").ok());
}

// One random change of a template: bytes gone, doubled, swapped, replaced.
std::string Mutate(std::string text, std::mt19937& random) {
  static constexpr char kSpice[] =
      "{}%#|.,:()[]'\"\\-+~*/<>= \n019axif\xc3\xff";
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes && !text.empty(); ++i) {
    const size_t at = random() % text.size();
    const size_t length = random() % std::min<size_t>(text.size() - at, 12);
    switch (random() % 4) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(random() % text.size(), text.substr(at, length));
        break;
      case 2:
        text[at] = kSpice[random() % (sizeof(kSpice) - 1)];
        break;
      default:
        text.insert(at, 1, kSpice[random() % (sizeof(kSpice) - 1)]);
    }
  }
  return text;
}

void ParseAndRender(const std::string& source, const Value& context) {
  RenderOptions options;
  options.max_steps = 20'000;
  options.max_text_bytes = 100'000;
  options.now_unix_seconds = 0;
  const auto parsed = Template::Parse(source);
  if (parsed.ok()) {
    (*parsed)->Render(context.mapping(), options).status().IgnoreError();
  }
}

TEST(JinjaMutations, OfTheCasesNeverCrash) {
  std::ifstream file(GOLDEN_DIR "/chat/jinja_cases.json");
  const ordered_json cases = ordered_json::parse(file);
  std::mt19937 random(1);
  for (const ordered_json& entry : cases) {
    const std::string source = entry["template"].get<std::string>();
    const Value context =
        ParseJson(entry.contains("context") ? entry["context"].dump() : "{}")
            .value();
    for (int i = 0; i < 20; ++i) {
      ParseAndRender(Mutate(source, random), context);
    }
  }
}

TEST(JinjaMutations, OfAChatTemplateNeverCrash) {
  std::ifstream file(SOURCE_ROOT
                     "/deploy/models/phalanx-mini/chat_template.jinja");
  const std::string source(std::istreambuf_iterator<char>(file), {});
  ASSERT_FALSE(source.empty());
  std::ifstream talks_file(GOLDEN_DIR "/chat/conversations.json");
  const ordered_json talks = ordered_json::parse(talks_file);
  std::mt19937 random(2);
  for (const ordered_json& talk : talks) {
    const Value context = ParseJson(talk.dump()).value();
    for (int i = 0; i < 10; ++i) {
      ParseAndRender(Mutate(source, random), context);
    }
  }
}

}  // namespace
}  // namespace phalanx::jinja
