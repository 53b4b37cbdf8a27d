#include "common/flag_list.h"

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// One flag of every kind that our programs have.
struct Flags {
  std::string folder;
  std::string choice = "auto";
  std::vector<std::string> list = {"a", "b"};
  int count = 3;
  int open = 0;
  bool given = false;
};

VerbEntry Describe(Flags& flags) {
  CLI::App app("A verb", "verb");
  app.set_help_flag("--help", "Show this");
  app.add_option("place", flags.folder, "An argument");
  app.add_option("--folder", flags.folder, "A folder")->type_name(kFolderValue);
  app.add_option("--choice", flags.choice, "A choice")
      ->check(CLI::IsMember({"auto", "fma"}))
      ->capture_default_str();
  app.add_option("--list", flags.list, "A list")
      ->delimiter(',')
      ->check(CLI::IsMember({"a", "b", "c"}))
      ->capture_default_str();
  app.add_option("--count", flags.count, "A number")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--open", flags.open, "A number")
      ->check(CLI::Range(2, std::numeric_limits<int32_t>::max()));
  app.add_flag("--given", flags.given, "A switch");
  app.add_flag("--secret", flags.given, "For programs")->group("");
  auto* group = app.add_option_group("Group", "One of these");
  group->add_option("--grouped", flags.count, "In a group");
  return DescribeVerb(app);
}

FlagEntry Find(const std::string& name) {
  Flags flags;
  for (const FlagEntry& flag : Describe(flags).flags)
    if (flag.name == name) return flag;
  ADD_FAILURE() << name << " is not listed";
  return {};
}

TEST(FlagList, HasEveryFlagThatIsNotHiddenOnce) {
  Flags flags;

  std::vector<std::string> names;
  for (const FlagEntry& flag : Describe(flags).flags)
    names.push_back(flag.name);

  EXPECT_THAT(names,
              ElementsAre("--help", "place", "--folder", "--choice", "--list",
                          "--count", "--open", "--given", "--grouped"));
}

TEST(FlagList, TellsWhatAFlagTakes) {
  EXPECT_EQ(Find("--folder").value, "DIR");
  EXPECT_EQ(Find("--count").value, "N");
  EXPECT_EQ(Find("--given").value, "");
}

TEST(FlagList, TellsTheChoicesOfAFlag) {
  EXPECT_THAT(Find("--choice").choices, ElementsAre("auto", "fma"));
  EXPECT_EQ(Find("--choice").value, "auto|fma");
  EXPECT_THAT(Find("--count").choices, IsEmpty());
}

TEST(FlagList, TellsAListByItsValue) {
  EXPECT_EQ(Find("--list").value, "a|b|c,...");
  EXPECT_THAT(Find("--list").choices, ElementsAre("a", "b", "c"));
}

TEST(FlagList, TellsLimitsInWords) {
  EXPECT_EQ(Find("--count").limits, "in [1, 64]");
  EXPECT_EQ(Find("--open").limits, "at least 2");
  EXPECT_EQ(Find("--folder").limits, "");
}

TEST(FlagList, TellsDefaults) {
  EXPECT_EQ(Find("--count").fallback, "3");
  EXPECT_EQ(Find("--list").fallback, "a,b");
  EXPECT_EQ(Find("--folder").fallback, "");
}

TEST(FlagList, SurvivesTheWayThroughJson) {
  Flags flags;
  const VerbEntry verb = Describe(flags);

  const auto back = ParseVerbJson(VerbJson(verb));

  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(*back == verb);
}

TEST(FlagList, RefusesWhatIsNoList) {
  for (const char* text : {"", "{", "[]", "{\"name\":1}",
                           "{\"name\":\"a\",\"help\":\"\",\"flags\":[{}]}"})
    EXPECT_TRUE(absl::IsInvalidArgument(ParseVerbJson(text).status())) << text;
}

}  // namespace
}  // namespace phalanx
