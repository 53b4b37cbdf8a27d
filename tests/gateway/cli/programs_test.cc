// The program as a person types it.

#include <signal.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/reason.h"
#include "tests/gateway/cli/fake_gateway.h"
#include "tests/gateway/cli/program.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// Flags.

class EveryProgram : public testing::TestWithParam<const char*> {};

TEST_P(EveryProgram, TellsItsVersion) {
  const Outcome outcome = RunProgram(GetParam(), {"--version"});

  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("0.1.0"));
}

TEST_P(EveryProgram, HasHelp) {
  const Outcome outcome = RunProgram(GetParam(), {"--help"});

  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Usage:"));
}

INSTANTIATE_TEST_SUITE_P(Flags, EveryProgram,
                         testing::Values("phalanx", "phalanx-gateway",
                                         "phalanx-worker"));

class EveryVerb : public testing::TestWithParam<const char*> {};

TEST_P(EveryVerb, HasHelpThatFitsATerminal) {
  const Outcome outcome = RunProgram("phalanx", {GetParam(), "--help"});

  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              HasSubstr("Usage: phalanx " + std::string(GetParam())));
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n'))
    EXPECT_LE(line.size(), 80u) << line;
}

INSTANTIATE_TEST_SUITE_P(Flags, EveryVerb,
                         testing::Values("serve", "chat", "generate", "status",
                                         "check", "tokenize", "plan",
                                         "completion"));

struct Refusal {
  std::vector<std::string> args;  // The program first.
  std::string says;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  for (const std::string& arg : refusal.args) *out << arg << " ";
}

class RefusedFlags : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedFlags, AreNamedWithValueAndLimit) {
  std::vector<std::string> args = GetParam().args;
  const std::string program = args.front();
  args.erase(args.begin());

  const Outcome outcome = RunProgram(program, args);

  EXPECT_GT(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Flags, RefusedFlags,
    testing::Values(
        Refusal{{"phalanx"}, "subcommand is required"},
        Refusal{{"phalanx", "frob"}, "the verb is frob; must be serve"},
        Refusal{{"phalanx", "serve", "--bogus"}, "--bogus"},
        Refusal{{"phalanx", "serve", "--tp-size", "0"}, "--tp-size"},
        Refusal{{"phalanx", "serve", "--max-running", "0"}, "--max-running"},
        Refusal{{"phalanx", "serve", "--moe-mode", "half"}, "--moe-mode"},
        Refusal{{"phalanx", "serve", "--offload-bank", "half"},
                "--offload-bank"},
        Refusal{{"phalanx", "serve", "--expert-slots", "-1"}, "--expert-slots"},
        Refusal{{"phalanx", "serve", "--memory-budget", "4GX"},
                "--memory-budget: the size is \"4GX\"; must be a number"},
        Refusal{{"phalanx-worker", "--model", "m", "--memory-budget", "0"},
                "--memory-budget: the size is \"0\"; must be 1.."},
        Refusal{{"phalanx", "chat", "--temperature", "-1", "hi"},
                "--temperature: value -1 is not in [0, 100]"},
        Refusal{{"phalanx", "generate"}, "--prompt"},
        Refusal{{"phalanx", "generate", "--prompt", "a", "--token-ids", "1"},
                "--token-ids"},
        Refusal{{"phalanx", "generate", "--prompt", "a", "--top-p", "0"},
                "--top-p: value 0 is not in (0, 1]"},
        Refusal{{"phalanx", "generate", "--prompt", "a", "--top-p", "nan"},
                "--top-p: value nan is not in (0, 1]"},
        Refusal{{"phalanx", "generate", "--prompt", "a", "--logprobs", "21"},
                "--logprobs"},
        Refusal{{"phalanx", "generate", "--prompt", "a", "--max-tokens", "-1"},
                "--max-tokens: value -1 is not in [0, the service's"},
        Refusal{{"phalanx", "generate", "--prompt", "a", "--logit-bias", "5"},
                "--logit-bias: value 5 is no ID:VALUE"},
        Refusal{{"phalanx", "generate", "--prompt", "a", "--priority", "top"},
                "--priority: top not in {lowest,"},
        Refusal{{"phalanx", "generate", "--prompt", "a", "-n", "17"},
                "--choices"},
        Refusal{{"phalanx", "chat", "-n", "2"}, "--choices requires message"},
        Refusal{{"phalanx", "generate", "--token-ids", "1,-2"}, "--token-ids"},
        Refusal{{"phalanx", "generate", "--prompt", "a", "--seed", "x"},
                "--seed"},
        Refusal{
            {"phalanx-gateway", "--model", "m", "--workers", "w", "--bogus"},
            "--bogus"},
        Refusal{{"phalanx", "tokenize", "a", "--file", "b"}, "--file"},
        Refusal{{"phalanx", "tokenize", "a", "--ids", "--json"}, "--json"},
        Refusal{{"phalanx", "check", "--manifest", "m"}, "--model"},
        Refusal{{"phalanx", "check", "--model", "m", "--address", "a",
                 "--write-manifest"},
                "--address"},
        Refusal{{"phalanx", "check", "--timeout", "0"},
                "--timeout: value 0 is not in (0, 3600]"},
        Refusal{{"phalanx", "completion", "fish"}, "fish not in {bash,zsh}"},
        Refusal{{"phalanx-gateway", "--bogus"}, "--bogus"},
        Refusal{{"phalanx-gateway", "--model", "m"}, "--workers"},
        Refusal{{"phalanx-worker", "--bogus"}, "--bogus"},
        Refusal{{"phalanx-worker", "--rank", "0"}, "--model"},
        Refusal{{"phalanx", "plan", "--bogus"}, "--bogus"},
        Refusal{{"phalanx", "plan", "--device-memory", "80GB"}, "--preset"},
        Refusal{{"phalanx", "plan", "--preset", "qwen3.6-35b-a3b"},
                "--device-memory"},
        Refusal{{"phalanx", "plan", "--preset", "p", "--model", "m"},
                "one of the two"},
        Refusal{{"phalanx", "plan", "--tp-size", "0"}, "--tp-size"},
        Refusal{{"phalanx", "plan", "--moe-mode", "auto"}, "--moe-mode"},
        Refusal{{"phalanx", "plan", "--offload-bank", "half"},
                "--offload-bank"},
        Refusal{{"phalanx", "plan", "--weights", "int5"}, "--weights"}));

// `plan`, which is the worker's.

TEST(Plan, IsTheWorkersOwn) {
  const std::vector<std::string> args = {
      "plan",    "--preset",        "qwen3.6-35b-a3b", "--tp-size",
      "1,2,4,8", "--device-memory", "94.4GiB"};

  const Outcome typed = RunProgram("phalanx", args);

  EXPECT_EQ(typed.code, 0);
  EXPECT_THAT(typed.out, HasSubstr("75.90 GiB"));
  EXPECT_EQ(typed.out, RunProgram("phalanx-worker", args).out);
}

TEST(Plan, HasHelpOfItsOwn) {
  const Outcome outcome = RunProgram("phalanx", {"plan", "--help"});

  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("--device-memory"));
}

TEST(Plan, IsAListOfObjectsForPrograms) {
  const Outcome outcome =
      RunProgram("phalanx", {"plan", "--preset", "qwen3.6-35b-a3b", "--tp-size",
                             "1,2", "--moe-mode", "offload,resident",
                             "--device-memory", "94.4GiB", "--json"});

  const auto plans = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(plans.size(), 4u);
  EXPECT_EQ(plans[1]["tp_size"], 2);
  EXPECT_EQ(plans[1]["moe_mode"], "offload");
  EXPECT_EQ(plans[2]["experts_bytes"], 64424509440);
}

TEST(Plan, ReadsAModelFolder) {
  const Outcome outcome = RunProgram(
      "phalanx",
      {"plan", "--model", SOURCE_ROOT "/deploy/models/phalanx-mini",
       "--device-memory", "1GiB", "--moe-mode", "resident", "--json"});

  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(nlohmann::json::parse(outcome.out)[0]["state_slots"], 25);
}

TEST(Plan, OfADenseModelIsResidentUnlessTold) {
  const std::vector<std::string> args = {
      "plan",   "--model",         SOURCE_ROOT "/tests/golden/models/dense",
      "--json", "--device-memory", "2GiB"};
  std::vector<std::string> told = args;
  told.insert(told.end(), {"--moe-mode", "offload"});

  const auto plans = nlohmann::json::parse(RunProgram("phalanx", args).out);

  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0]["moe_mode"], "resident");
  EXPECT_THAT(RunProgram("phalanx", told).err,
              HasSubstr("moe_mode is offload; must be resident"));
}

TEST(Plan, TellsWhatDoesNotFitAndPrintsTheRest) {
  const Outcome outcome =
      RunProgram("phalanx", {"plan", "--preset", "qwen3.6-35b-a3b",
                             "--device-memory", "24GiB", "--json"});

  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("44.46 GiB too little"));
  EXPECT_EQ(nlohmann::json::parse(outcome.out).size(), 1u);
}

TEST(Plan, NamesAWrongValueWithItsLimits) {
  const auto says = [](std::vector<std::string> flags) {
    std::vector<std::string> args = {"plan", "--device-memory", "80GB"};
    args.insert(args.end(), flags.begin(), flags.end());
    return RunProgram("phalanx", args).err;
  };

  EXPECT_THAT(says({"--preset", "gpt-2"}), HasSubstr("preset is \"gpt-2\""));
  EXPECT_THAT(says({"--model", "/nowhere"}), HasSubstr("/nowhere"));
  EXPECT_THAT(says({"--preset", "qwen3.6-35b-a3b", "--tp-size", "3"}),
              HasSubstr("tp_size=3"));
  EXPECT_THAT(says({"--preset", "qwen3.6-35b-a3b", "--memory-ratio", "2"}),
              HasSubstr("memory_ratio is 2; must be in (0, 1]"));
}

// Verbs, against a service that plays a script.

TEST(Generate, PrintsTheTextAndALineEnd) {
  FakeGateway gateway;
  gateway.Say(v1::CHANNEL_CONTENT, "fi");
  gateway.Say(v1::CHANNEL_CONTENT, "ve");

  const Outcome outcome = RunProgram(
      "phalanx",
      {"generate", "--address", gateway.address, "--prompt", "2+3="});

  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "five\n");
  EXPECT_EQ(gateway.generated.text(), "2+3=");
}

TEST(Generate, PrintsIdsWhereTheModelHasNoText) {
  FakeGateway gateway;
  gateway.has_tokenizer = false;
  gateway.Say(v1::CHANNEL_CONTENT, "");
  gateway.Say(v1::CHANNEL_CONTENT, "");

  const Outcome outcome = RunProgram(
      "phalanx",
      {"generate", "--address", gateway.address, "--token-ids", "7,8"});

  EXPECT_EQ(outcome.out, "1,2\n");
  EXPECT_THAT(gateway.generated.token_ids().ids(), testing::ElementsAre(7, 8));
}

TEST(Generate, PrintsOneJsonObjectPerEvent) {
  FakeGateway gateway;
  gateway.Say(v1::CHANNEL_CONTENT, "five");
  gateway.script.emplace_back().mutable_summary()->set_completion_tokens(1);

  const Outcome outcome =
      RunProgram("phalanx", {"generate", "--address", gateway.address,
                             "--prompt", "2+3=", "--logprobs", "2", "--json"});

  const size_t end = outcome.out.find('\n');
  const auto first = nlohmann::json::parse(outcome.out.substr(0, end));
  const auto second = nlohmann::json::parse(outcome.out.substr(end + 1));
  EXPECT_EQ(first["delta"]["text"], "five");
  EXPECT_EQ(second["summary"]["completion_tokens"], "1");
  EXPECT_EQ(gateway.generated.output().top_n(), 2);
}

TEST(Generate, ReadsAPromptFromStandardInput) {
  FakeGateway gateway;

  RunProgram("phalanx",
             {"generate", "--address", gateway.address, "--prompt-file", "-"},
             "2+3=");

  EXPECT_EQ(gateway.generated.text(), "2+3=");
}

TEST(Generate, NamesAPromptFileThatIsNotThere) {
  const Outcome outcome = RunProgram(
      "phalanx",
      {"generate", "--address", "h:1", "--prompt-file", "/nowhere/p.txt"});

  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--prompt-file is /nowhere/p.txt"));
}

TEST(Generate, TellsARefusalWithItsReason) {
  FakeGateway gateway;
  gateway.end = ReasonedError(absl::StatusCode::kInvalidArgument, "BAD_FIELD",
                              "n is 2; must be 1");

  const Outcome outcome = RunProgram(
      "phalanx", {"generate", "--address", gateway.address, "--prompt", "a"});

  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err,
            "phalanx generate: INVALID_ARGUMENT/BAD_FIELD: n is 2; must be "
            "1\n");
}

TEST(Generate, EndsWith130AtCtrlC) {
  FakeGateway gateway;
  gateway.Say(v1::CHANNEL_CONTENT, "five");
  gateway.holds = true;
  Program program("phalanx", {"generate", "--address", gateway.address,
                              "--prompt", "2+3="});
  program.WaitFor("five");

  program.Signal(SIGINT);

  EXPECT_EQ(program.End().code, 130);
}

TEST(Chat, TellsTheTimingsWhereAskedTo) {
  FakeGateway gateway;
  gateway.Say(v1::CHANNEL_CONTENT, "five");
  v1::Summary& summary = *gateway.script.emplace_back().mutable_summary();
  summary.set_completion_tokens(12);
  summary.set_time_to_first_token_seconds(0.009);
  summary.set_tokens_per_second(1043);

  const Outcome outcome = RunProgram(
      "phalanx", {"chat", "--timings", "--address", gateway.address, "2 + 3?"});

  EXPECT_EQ(outcome.out, "five\n12 tokens, first after 9 ms, 1043 tokens/s\n");
}

TEST(Worker, SaysWhyCudaCannotServe) {
  const Outcome outcome = RunProgram(
      "phalanx-worker", {"--model", SOURCE_ROOT "/deploy/models/phalanx-mini",
                         "--device", "cuda"});

  EXPECT_EQ(outcome.code, 1);
  // Operations are missing; or, built without nvcc, the plugin.
  EXPECT_THAT(outcome.err,
              testing::AnyOf(HasSubstr("CUDA cannot serve a model yet; it has "
                                       "no Embed"),
                             HasSubstr("bin/libphalanx_cuda.so")));
}

TEST(Chat, AnswersOneMessage) {
  FakeGateway gateway;
  gateway.Say(v1::CHANNEL_REASONING, "hm");
  gateway.Say(v1::CHANNEL_CONTENT, "five");

  const Outcome outcome =
      RunProgram("phalanx", {"chat", "--address", gateway.address, "--system",
                             "Be brief", "--no-thinking", "2 + 3?"});

  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "hm\n\nfive\n");
  const v1::ChatRequest& asked = gateway.chats.at(0);
  EXPECT_EQ(asked.messages(0).role(), "system");
  EXPECT_TRUE(asked.reasoning().has_enabled());
  EXPECT_FALSE(asked.reasoning().enabled());
}

TEST(Chat, AnswersEachLineOfStandardInput) {
  FakeGateway gateway;
  gateway.Say(v1::CHANNEL_CONTENT, "five");

  const Outcome outcome = RunProgram(
      "phalanx", {"chat", "--address", gateway.address}, "2 + 3?\n\n3 + 2?");

  EXPECT_EQ(outcome.out, "five\nfive\n");
  EXPECT_EQ(gateway.chats.at(1).messages_size(), 3);
}

TEST(Chat, SaysInPlainWordsThatNobodyAnswers) {
  const Outcome outcome =
      RunProgram("phalanx", {"chat", "--address", "127.0.0.1:1", "hello"});

  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err,
            "phalanx chat: no service answers at 127.0.0.1:1; start one with "
            "`phalanx serve`\n");
}

TEST(Chat, EndsWith130AtCtrlCOffATerminal) {
  FakeGateway gateway;
  gateway.Say(v1::CHANNEL_CONTENT, "five");
  gateway.holds = true;
  Program program("phalanx", {"chat", "--address", gateway.address, "2 + 3?"});
  program.WaitFor("five");

  program.Signal(SIGINT);

  EXPECT_EQ(program.End().code, 130);
}

TEST(Status, IsOneJsonObjectForPrograms) {
  FakeGateway gateway;

  const Outcome outcome =
      RunProgram("phalanx", {"status", "--address", gateway.address, "--json"});

  EXPECT_EQ(nlohmann::json::parse(outcome.out)["state"], "ready");
}

}  // namespace
}  // namespace phalanx
