// `phalanx check` as a person and a script use it; against a service it is
// tested in tests/e2e/check_test.py.

#include "gateway/cli/check.h"

#include <nlohmann/json.hpp>

#include "tests/gateway/cli/program.h"
#include "tests/gateway/cli/temporary_folder.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr char kMini[] = SOURCE_ROOT "/deploy/models/phalanx-mini";
const std::string kZeros(64, '0');

Outcome Check(std::vector<std::string> args) {
  args.insert(args.begin(), "check");
  return RunProgram("phalanx", args);
}

TEST(Check, FindsTheModelOfTheRepositoryAsItWasCommitted) {
  const Outcome outcome = Check({"--model", kMini});

  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out,
              ContainsRegex("^files +ok +[0-9.]+ s  7 files are as SHA256SUMS "
                            "says; 10.06 MiB at [0-9]+ MB/s\n$"));
}

TEST(Check, AgreesWithSha256sumOnTheModelOfTheRepository) {
  const Outcome theirs = RunShell(absl::StrCat(
      "cd ", kMini, " && sha256sum --check --strict --quiet SHA256SUMS"));

  EXPECT_EQ(theirs.code, 0) << theirs.out << theirs.err;
}

TEST(Check, ListsWhatIsWrongWithAFolder) {
  const TemporaryFolder folder;
  folder.Write("a", "");
  folder.Write("n\nb", "");
  folder.Write("SHA256SUMS", kZeros + "  a\n" + kZeros + "  c\n");

  const Outcome outcome = Check({"--model", folder.root()});

  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("3 files are not as SHA256SUMS says, of 2"));
  EXPECT_THAT(outcome.out, HasSubstr("\n  differs    a\n"
                                     "  missing    c\n"
                                     "  extra      n\\nb\n"));
  EXPECT_EQ(outcome.err, "");
}

TEST(Check, TellsProgramsWhatIsWrongWithAFolder) {
  const TemporaryFolder folder;
  folder.Write("a", "");
  folder.Write("SHA256SUMS", kZeros + "  a\n");

  const Outcome outcome = Check({"--model", folder.root(), "--json"});

  EXPECT_EQ(outcome.code, 1);
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["ok"], false);
  const auto& check = report["checks"].at(0);
  EXPECT_EQ(check["check"], "files");
  EXPECT_EQ(check["result"], "failed");
  EXPECT_EQ(check["files"]["differs"], nlohmann::json({"a"}));
  EXPECT_EQ(check["files"]["missing"], nlohmann::json::array());
}

TEST(Check, MakesAManifestThatItThenFindsRight) {
  const TemporaryFolder folder;
  folder.Write("a", "abc");

  const Outcome made = Check({"--model", folder.root(), "--write-manifest"});

  EXPECT_EQ(made.code, 0) << made.out;
  EXPECT_THAT(made.out, HasSubstr("SHA256SUMS of 1 files"));
  EXPECT_EQ(Check({"--model", folder.root()}).code, 0);
  folder.Write("a", "abd");
  EXPECT_EQ(Check({"--model", folder.root()}).code, 1);
}

TEST(Check, TakesAManifestFromElsewhere) {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  folder.Write("a", "abc");
  const std::string sums = elsewhere.path("sums");

  const Outcome made =
      Check({"--model", folder.root(), "--manifest", sums, "--write-manifest"});

  EXPECT_EQ(made.code, 0) << made.out;
  EXPECT_EQ(Check({"--model", folder.root(), "--manifest", sums}).code, 0);
  EXPECT_EQ(Check({"--model", folder.root()}).code, 1);
}

TEST(Check, NamesAModelOrAManifestThatIsNotThere) {
  const TemporaryFolder folder;

  EXPECT_THAT(Check({"--model", "/nowhere"}).out,
              HasSubstr("--model is /nowhere; no such folder"));
  EXPECT_THAT(Check({"--model", folder.root()}).out,
              HasSubstr("/SHA256SUMS is not there; give --manifest FILE"));
}

TEST(Check, LooksAtTheServiceAndAtTheFilesWhereBothAreGiven) {
  const Outcome outcome = Check({"--address", "127.0.0.1:1", "--model", kMini});

  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("health      failed"));
  EXPECT_THAT(outcome.out, HasSubstr("\ngeneration  skipped\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\nfiles       ok"));
}

TEST(Check, SaysThatNoServiceRuns) {
  const TemporaryFolder runtime;

  const Outcome outcome =
      RunShell("XDG_RUNTIME_DIR=" + runtime.root() + " $PHALANX check");

  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("no `phalanx serve` of this user is"));
}

TEST(Check, SaysThatItsOutputCannotBeWritten) {
  const Outcome outcome =
      RunShell(absl::StrCat("$PHALANX check --model ", kMini, " >/dev/full"));

  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output cannot be written"));
}

}  // namespace
}  // namespace phalanx
