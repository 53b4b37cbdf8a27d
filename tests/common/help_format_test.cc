#include "common/help_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/strings/str_split.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

class HelpFormatTest : public testing::Test {
 protected:
  HelpFormatTest() {
    app_.formatter(std::make_shared<HelpFormat>());
    app_.set_help_flag("--help", "Show this");
  }

  CLI::App app_{"What it is.", "tool"};
  std::string text_ = "it";
  int number_ = 5;
  bool secret_ = false;
};

TEST_F(HelpFormatTest, TellsValueLimitsAndDefaultOfAFlag) {
  app_.add_option("--count", number_, "How many")
      ->check(CLI::Range(1, 9))
      ->capture_default_str();

  EXPECT_THAT(app_.help(),
              HasSubstr("  --count N               How many (in [1, 9]; "
                        "default 5)\n"));
}

TEST_F(HelpFormatTest, BreaksLongLinesBetweenWords) {
  app_.add_option("--count", number_,
                  "A sentence that goes on and on until a terminal has no room "
                  "for it");

  EXPECT_THAT(app_.help(),
              HasSubstr("  --count N               A sentence that goes on and "
                        "on until a terminal has no\n"
                        "                          room for it\n"));
}

TEST_F(HelpFormatTest, BreaksNoLineWithinALimit) {
  app_.add_option("--count", number_, "A sentence as long as to the limit ")
      ->check(CLI::Range(1000000, 2000000));

  EXPECT_THAT(app_.help(), HasSubstr("limit\n                          "
                                     "(in [1000000, 2000000])\n"));
}

TEST_F(HelpFormatTest, PutsALongNameOnALineOfItsOwn) {
  app_.add_option("--a-name-of-many-words", text_, "What");

  EXPECT_THAT(app_.help(), HasSubstr("  --a-name-of-many-words TEXT\n"
                                     "                          What\n"));
}

TEST_F(HelpFormatTest, ShowsArgumentsInTheUsage) {
  app_.add_option("shell", text_, "Which")
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->required();
  app_.add_option("rest", number_, "More");

  EXPECT_THAT(app_.help(), HasSubstr("Usage: tool bash|zsh [rest] [flags]\n"));
}

TEST_F(HelpFormatTest, ShowsAGroupWithWhatItsFlagsShare) {
  auto* group = app_.add_option_group("Prompt", "Exactly one of these");
  group->add_option("--text", text_, "Raw");
  group->require_option(1);

  EXPECT_THAT(app_.help(), HasSubstr("\nPrompt (Exactly one of these):\n"
                                     "  --text TEXT             Raw\n"));
}

TEST_F(HelpFormatTest, HidesAFlagWithoutAGroupAndLeavesNoGap) {
  app_.add_flag("--secret", secret_, "For programs")->group("");
  app_.footer("The end.");

  EXPECT_THAT(app_.help(), Not(HasSubstr("secret")));
  EXPECT_THAT(app_.help(), Not(HasSubstr("\n\n\n")));
}

TEST_F(HelpFormatTest, ListsVerbs) {
  app_.add_subcommand("serve", "Serve a model")->group("Verbs");
  app_.require_subcommand(1);

  EXPECT_THAT(app_.help(), HasSubstr("Usage: tool VERB [flags]\n"));
  EXPECT_THAT(app_.help(), HasSubstr("\nVerbs:\n  serve                   "
                                     "Serve a model\n"));
}

}  // namespace
}  // namespace phalanx
