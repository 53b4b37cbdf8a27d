// The manner of the tree, as far as a machine can check it; and that each
// check finds what it is for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/source_tree.h"
#include "tests/tidy_checks.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Rule {
  const char* name;
  Complaints (*check)(const SourceTree&);
};

void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

class Tidy : public testing::TestWithParam<Rule> {};

TEST_P(Tidy, TheTreeKeepsTo) {
  static const SourceTree tree = ReadSourceTree();

  for (const std::string& complaint : GetParam().check(tree))
    ADD_FAILURE() << complaint;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Tidy,
    testing::Values(Rule{"ShortFiles", LongFiles},
                    Rule{"ShortFunctions", LongFunctions},
                    Rule{"NumberedToDos", UnnumberedToDos},
                    Rule{"TellingNames", EmptyNames},
                    Rule{"AReadmePerModule", MissingReadmes},
                    Rule{"UsedHeaders", UnusedHeaders},
                    Rule{"NoMachinePaths", MachinePaths},
                    Rule{"RightGuards", WrongGuards},
                    Rule{"BuiltSources", UnbuiltSources}),
    [](const testing::TestParamInfo<Rule>& info) { return info.param.name; });

TEST(TidyChecks, AFileOfFiveHundredLinesIsFound) {
  const SourceTree tree = {{"worker/a.cc", std::vector<std::string>(500)},
                           {"worker/b.cc", std::vector<std::string>(499)}};

  EXPECT_THAT(LongFiles(tree),
              ElementsAre("worker/a.cc: has 500 lines; fewer than 500"));
}

TEST(TidyChecks, AFunctionOfMoreThanSeventyLinesIsFound) {
  std::vector<std::string> lines = {"int Short() {", "}", "",
                                    "absl::Status Long(int a,",
                                    "                  int b) {"};
  lines.resize(lines.size() + 70, "  a += b;");
  lines.push_back("}");

  EXPECT_THAT(LongFunctions({{"worker/a.cc", lines}}),
              ElementsAre("worker/a.cc:4: Long has 73 lines; at most 70"));
}

TEST(TidyChecks, ALongFunctionOfAClassIsFound) {
  std::vector<std::string> lines = {"class A {", " public:", "  void Long() {"};
  lines.resize(lines.size() + 70, "    a += b;");
  lines.insert(lines.end(), {"  }", "};"});

  EXPECT_THAT(LongFunctions({{"worker/a.h", lines}}),
              ElementsAre("worker/a.h:3: Long has 72 lines; at most 70"));
}

TEST(TidyChecks, ALongClassOfShortFunctionsIsNoLongFunction) {
  std::vector<std::string> lines = {"class A {"};
  for (int i = 0; i < 50; ++i)
    lines.insert(lines.end(), {"  int b() {", "    return 1;", "  }"});
  lines.push_back("};");

  EXPECT_THAT(LongFunctions({{"worker/a.h", lines}}), IsEmpty());
}

TEST(TidyChecks, AToDoWithoutAnIssueIsFound) {
  const SourceTree tree = {{"worker/a.cc",
                            {"// TO"
                             "DO: soon",
                             "// TO"
                             "DO(#12): later"}}};

  EXPECT_THAT(UnnumberedToDos(tree), ElementsAre(HasSubstr("worker/a.cc:1: ")));
}

TEST(TidyChecks, ANameThatSaysNothingIsFound) {
  const SourceTree tree = {{"worker/string_utils.h", {}},
                           {"worker/database.h", {}},
                           {"worker/helpers/a.h", {}}};

  EXPECT_THAT(EmptyNames(tree),
              ElementsAre("worker/helpers/a.h: the name helpers says nothing",
                          "worker/string_utils.h: the name string_utils says "
                          "nothing"));
}

TEST(TidyChecks, AModuleWithoutAReadmeIsFound) {
  const SourceTree tree = {{"tests/README.md", {}},
                           {"worker/cache/a.h", {}},
                           {"worker/model/a.h", {}},
                           {"worker/model/README.md", {}}};

  EXPECT_THAT(MissingReadmes(tree),
              ElementsAre("worker/cache: has no README.md"));
}

TEST(TidyChecks, AHeaderThatOnlyItsOwnSourceIncludesIsFound) {
  const SourceTree tree = {
      {"worker/a.h", {}},
      {"worker/a.cc", {"#include \"worker/a.h\"", "#include \"worker/b.h\""}},
      {"worker/b.h", {}}};

  EXPECT_THAT(UnusedHeaders(tree),
              ElementsAre("worker/a.h: nothing includes it"));
}

TEST(TidyChecks, APathOfOneMachineIsFound) {
  const SourceTree tree = {{"worker/a.cc",
                            {"open(\"/ho"
                             "me/me/model\")",
                             "../deploy/work/"}}};

  EXPECT_THAT(MachinePaths(tree), ElementsAre(HasSubstr("worker/a.cc:1: ")));
}

TEST(TidyChecks, AGuardOfAnotherNameIsFound) {
  const SourceTree tree = {
      {"worker/a_b.h",
       {"#ifndef PHALANX_WORKER_A_B_H_", "#define PHALANX_WORKER_A_B_H_",
        "#endif  // PHALANX_A_B_H_"}}};

  EXPECT_THAT(
      WrongGuards(tree),
      ElementsAre("worker/a_b.h: lacks #endif  // PHALANX_WORKER_A_B_H_"));
}

TEST(TidyChecks, ASourceThatIsNotBuiltIsFound) {
  const SourceTree tree = {
      {"worker/CMakeLists.txt", {"  SOURCES main.cc", "phalanx_test(x/a_test"}},
      {"worker/a_test.cc", {}},
      {"worker/main.cc", {}},
      {"worker/old_main.cc", {}}};

  EXPECT_THAT(UnbuiltSources(tree),
              ElementsAre("worker/old_main.cc: no CMakeLists.txt names it"));
}

}  // namespace
}  // namespace phalanx
