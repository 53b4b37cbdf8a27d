#include "gateway/cli/worker_verb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "tests/gateway/cli/program.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;

constexpr char kMini[] = SOURCE_ROOT "/deploy/models/phalanx-mini";

// The worker's verb that these words become; "" if it is none.
std::string WorkersVerb(std::vector<std::string> words) {
  words.insert(words.begin(), "phalanx");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const WorkerVerb* verb =
      FindWorkerVerb(static_cast<int>(argv.size()), argv.data());
  return verb == nullptr ? "" : verb->worker_verb;
}

TEST(WorkerVerb, IsFoundByItsWords) {
  EXPECT_EQ(WorkersVerb({"plan", "--help"}), "plan");
  EXPECT_EQ(WorkersVerb({"bench", "kernels"}), "bench-kernels");
  EXPECT_EQ(WorkersVerb({"bench", "model", "--quick"}), "bench-model");
}

TEST(WorkerVerb, IsNoneOfTheOthers) {
  EXPECT_EQ(WorkersVerb({}), "");
  EXPECT_EQ(WorkersVerb({"bench"}), "");
  EXPECT_EQ(WorkersVerb({"bench", "serve"}), "");
  EXPECT_EQ(WorkersVerb({"serve"}), "");
}

class EachWorkerVerb : public testing::TestWithParam<const char*> {
 protected:
  std::vector<std::string> Words(const std::string& more) const {
    std::vector<std::string> words = absl::StrSplit(GetParam(), ' ');
    words.push_back(more);
    return words;
  }
};

TEST_P(EachWorkerVerb, HasHelpThatFitsATerminal) {
  const Outcome outcome = RunProgram("phalanx", Words("--help"));

  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              HasSubstr("Usage: phalanx " + std::string(GetParam())));
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n'))
    EXPECT_LE(line.size(), 80u) << line;
}

TEST_P(EachWorkerVerb, RefusesAFlagThatItDoesNotKnow) {
  const Outcome outcome = RunProgram("phalanx", Words("--bogus"));

  EXPECT_GT(outcome.code, 100);
  EXPECT_THAT(outcome.err, HasSubstr("--bogus"));
}

INSTANTIATE_TEST_SUITE_P(Verbs, EachWorkerVerb,
                         testing::Values("bench kernels", "bench model"));

TEST(Bench, SaysWhatMayBeMeasured) {
  const Outcome outcome = RunProgram("phalanx", {"bench"});

  EXPECT_GT(outcome.code, 100);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("bench serve"), HasSubstr("bench kernels"),
                    HasSubstr("bench model")));
}

TEST(BenchModel, NeedsAModel) {
  const Outcome outcome = RunProgram("phalanx", {"bench", "model"});

  EXPECT_GT(outcome.code, 100);
  EXPECT_THAT(outcome.err, HasSubstr("--model"));
}

TEST(BenchModel, TellsOfAModelThatIsNotThere) {
  const Outcome outcome =
      RunProgram("phalanx", {"bench", "model", "--model", "/nowhere"});

  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("phalanx bench model: "));
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere"));
}

TEST(BenchModel, TellsWhyARankCannotLoad) {
  const Outcome outcome =
      RunProgram("phalanx", {"bench", "model", "--model", kMini, "--quick",
                             "--memory-budget", "1MiB"});

  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("phalanx bench model: "));
}

// What the model bench measured of the mini model.
json Measured(std::vector<std::string> flags) {
  std::vector<std::string> words = {"bench",  "model",   "--model",  kMini,
                                    "--json", "--quick", "--rounds", "1"};
  words.insert(words.end(), flags.begin(), flags.end());
  const Outcome outcome = RunProgram("phalanx", words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return json::parse(outcome.out);
}

TEST(BenchModel, MeasuresEveryCaseAndEachIsWhole) {
  const json report = Measured({});

  ASSERT_EQ(report["cases"].size(), 3u);
  for (const json& c : report["cases"]) {
    double shares = 0;
    for (const auto& part : c["parts"].items())
      shares += part.value().get<double>();
    EXPECT_NEAR(shares, 1, 1e-9);
    EXPECT_EQ(c["kept"].get<int>() > 0, !c["tokens_per_second"].is_null());
    EXPECT_GT(c["kept"].get<int>() + c["thrown"].get<int>(), 0);
  }
  EXPECT_GT(report["machine"]["before"]["all"]["read_bytes_per_second"], 1e6);
  EXPECT_GT(report["peak_bytes"], 1e6);
}

TEST(BenchModel, TwoRanksComeBesideOne) {
  const json report = Measured({"--tp-size", "2", "--threads", "1", "--batches",
                                "1", "--only", "decode"});

  ASSERT_EQ(report["cases"].size(), 1u);
  EXPECT_EQ(report["tp_size"], 2);
  const json& c = report["cases"][0];
  EXPECT_EQ(c["kept"].get<int>() > 0, !c["over_tp1"].is_null());
}

TEST(BenchModel, OffloadTellsOfFetches) {
  const json report = Measured({"--moe-mode", "offload", "--expert-slots", "16",
                                "--batches", "1", "--only", "decode"});

  EXPECT_EQ(report["moe_mode"], "offload");
  const json& c = report["cases"][0];
  EXPECT_EQ(c["kept"].get<int>() > 0, !c["hit_rate"].is_null());
}

TEST(BenchKernels, MeasuresTheKernelsThatAreNamed) {
  const Outcome outcome =
      RunProgram("phalanx", {"bench", "kernels", "--json", "--quick",
                             "--rounds", "1", "--only", "norm,delta"});

  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  ASSERT_EQ(report["cases"].size(), 4u);
  EXPECT_EQ(report["cases"][2]["name"], "norm");
}

TEST(ListWorkerFlags, AreThoseOfTheWorkersVerb) {
  for (const WorkerVerb& verb : WorkerVerbs()) {
    const Outcome outcome =
        RunProgram("phalanx-worker", {verb.worker_verb, "--list-flags"});
    const absl::StatusOr<VerbEntry> entry = ParseVerbJson(outcome.out);

    ASSERT_THAT(entry, IsOk()) << verb.worker_verb;
    EXPECT_THAT(entry->flags, Contains(Field(&FlagEntry::name, "--help")));
    EXPECT_GT(entry->flags.size(), 1u) << verb.worker_verb;
  }
}

}  // namespace
}  // namespace phalanx
