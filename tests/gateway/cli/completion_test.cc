#include "gateway/cli/completion.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/gateway/cli/program.h"
#include "tests/gateway/cli/temporary_folder.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A program with a verb for each thing that a shell completes.
class Completion : public testing::Test {
 protected:
  Completion() {
    app_.set_help_flag("--help", "Show [this]: it's \\ help");
    CLI::App& run = *app_.add_subcommand("run", "Runs");
    run.set_help_flag();
    run.add_option("--mode", text_, "How: [so]")
        ->check(CLI::IsMember({"fast", "far", "slow"}));
    run.add_option("--list", list_, "A list; of many")
        ->delimiter(',')
        ->check(CLI::IsMember({"red", "green"}));
    run.add_option("--dir", text_, "Where")->type_name(kFolderValue);
    run.add_option("--file", text_, "What")->type_name(kFileValue);
    run.add_option("--name", text_, "Any");
    run.add_flag("--quiet", quiet_, "No word");
    CLI::App& pick = *app_.add_subcommand("pick", "Picks");
    pick.add_option("shell", text_, "Which")->check(CLI::IsMember({"a", "b"}));
    folder_.Write("old/one", "");
    folder_.Write("my file", "");
  }

  // What bash offers after these words, the last of them unfinished.
  std::vector<std::string> Offered(const std::vector<std::string>& words) {
    std::string script = BashCompletion(DescribeCommandLine(app_));
    absl::StrAppend(&script, "cd ", folder_.root(), "\nCOMP_WORDS=(tool");
    for (const std::string& word : words)
      absl::StrAppend(&script, " '", word, "'");
    absl::StrAppend(&script, ")\nCOMP_CWORD=", words.size(),
                    "\n_tool\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
    const Outcome outcome = RunProgram("/bin/bash", {"-u"}, script);
    EXPECT_EQ(outcome.err, "");
    return absl::StrSplit(outcome.out, '\n', absl::SkipEmpty());
  }

  CLI::App app_{"A tool", "tool"};
  std::string text_;
  bool quiet_ = false;
  std::vector<std::string> list_;
  const TemporaryFolder folder_;
};

TEST_F(Completion, OffersVerbs) {
  EXPECT_THAT(Offered({""}), ElementsAre("run", "pick"));
  EXPECT_THAT(Offered({"r"}), ElementsAre("run"));
}

TEST_F(Completion, OffersFlagsOfTheProgramBeforeAVerb) {
  EXPECT_THAT(Offered({"-"}), UnorderedElementsAre("--help"));
}

TEST_F(Completion, OffersTheFlagsOfAVerb) {
  EXPECT_THAT(Offered({"run", ""}), ElementsAre("--mode", "--list", "--dir",
                                                "--file", "--name", "--quiet"));
  EXPECT_THAT(Offered({"run", "--quiet", "--m"}), ElementsAre("--mode"));
}

TEST_F(Completion, OffersTheChoicesOfAFlag) {
  EXPECT_THAT(Offered({"run", "--mode", ""}),
              ElementsAre("fast", "far", "slow"));
  EXPECT_THAT(Offered({"run", "--mode", "fa"}), ElementsAre("fast", "far"));
}

TEST_F(Completion, OffersTheChoicesOfAFlagAfterEquals) {
  EXPECT_THAT(Offered({"run", "--mode", "="}),
              ElementsAre("fast", "far", "slow"));
  EXPECT_THAT(Offered({"run", "--mode", "=", "s"}), ElementsAre("slow"));
}

TEST_F(Completion, GoesOnWithAList) {
  EXPECT_THAT(Offered({"run", "--list", "red,g"}), ElementsAre("red,green"));
}

TEST_F(Completion, OffersFoldersWhereAFolderGoes) {
  EXPECT_THAT(Offered({"run", "--dir", ""}), ElementsAre("old"));
}

TEST_F(Completion, OffersPathsWhereAFileGoes) {
  EXPECT_THAT(Offered({"run", "--file", ""}),
              UnorderedElementsAre("old", "my file"));
}

TEST_F(Completion, OffersNothingWhereOnlyAPersonKnows) {
  EXPECT_THAT(Offered({"run", "--name", ""}), IsEmpty());
}

TEST_F(Completion, OffersTheChoicesOfAnArgument) {
  EXPECT_THAT(Offered({"pick", ""}), ElementsAre("a", "b"));
}

TEST_F(Completion, OffersNothingForAVerbThatThereIsNot) {
  EXPECT_THAT(Offered({"frob", "--m"}), IsEmpty());
}

TEST_F(Completion, TellsZshWhatEachFlagTakes) {
  const std::string script = ZshCompletion(DescribeCommandLine(app_));

  EXPECT_THAT(script,
              HasSubstr("'--mode=[How\\: \\[so\\]]:mode:(fast far slow)'"));
  EXPECT_THAT(script, HasSubstr("'--list=[A list]:list:_values -s , value red "
                                "green'"));
  EXPECT_THAT(script, HasSubstr("'--dir=[Where]:dir:_files -/'"));
  EXPECT_THAT(script, HasSubstr("'--file=[What]:file:_files'"));
  EXPECT_THAT(script, HasSubstr("'--name=[Any]:name: '"));
  EXPECT_THAT(script, HasSubstr("'--quiet[No word]'"));
  EXPECT_THAT(script, HasSubstr("'1:shell:(a b)'"));
  EXPECT_THAT(script,
              HasSubstr("'--help[Show \\[this\\]\\: it'\\''s \\\\ help]'"));
}

TEST_F(Completion, IsAScriptThatZshReads) {
  const Outcome outcome = RunProgram("/usr/bin/zsh", {"-n"},
                                     ZshCompletion(DescribeCommandLine(app_)));

  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
}

TEST(CompletionVerb, PrintsTheScriptOfTheShellThatIsAskedFor) {
  const Outcome bash = RunProgram("phalanx", {"completion", "bash"});
  const Outcome zsh = RunProgram("phalanx", {"completion", "zsh"});

  EXPECT_EQ(bash.code, 0);
  EXPECT_THAT(bash.out, HasSubstr("complete -F _phalanx phalanx\n"));
  EXPECT_EQ(zsh.code, 0);
  EXPECT_THAT(zsh.out, testing::StartsWith("#compdef phalanx\n"));
}

TEST(CompletionVerb, SaysThatItsOutputCannotBeWritten) {
  const Outcome outcome = RunShell("$PHALANX completion bash >/dev/full");

  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output cannot be written"));
}

}  // namespace
}  // namespace phalanx
