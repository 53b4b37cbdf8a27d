// The flags that `phalanx generate` and `phalanx chat` share, and how several
// answers look, against a service that plays a script.

#include "gateway/cli/generate.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "tests/gateway/cli/fake_gateway.h"
#include "tests/gateway/cli/program.h"

namespace phalanx {
namespace {

TEST(GenerateVerb, PassesEveryFlagOn) {
  FakeGateway gateway;

  const Outcome outcome = RunProgram("phalanx", {"generate",
                                                 "--address",
                                                 gateway.address,
                                                 "--prompt",
                                                 "a",
                                                 "--presence-penalty",
                                                 "0.5",
                                                 "--frequency-penalty",
                                                 "-0.5",
                                                 "--repetition-penalty",
                                                 "1.5",
                                                 "--repetition-window",
                                                 "8",
                                                 "--logit-bias",
                                                 "5:-2,6:100",
                                                 "--allowed-ids",
                                                 "5,6",
                                                 "--banned-ids",
                                                 "7",
                                                 "--min-tokens",
                                                 "2",
                                                 "--max-tokens",
                                                 "0",
                                                 "--max-time",
                                                 "1.5",
                                                 "--ignore-eos",
                                                 "-n",
                                                 "3",
                                                 "--prompt-logprobs",
                                                 "--echo",
                                                 "--salt",
                                                 "s",
                                                 "--bypass-cache",
                                                 "--priority",
                                                 "high"});

  ASSERT_EQ(outcome.code, 0) << outcome.err;
  v1::GenerateRequest want;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "text: 'a' sampling { presence_penalty: 0.5 frequency_penalty: -0.5 "
      "repetition_penalty: 1.5 repetition_window: 8 logit_bias { key: 5 value: "
      "-2 } logit_bias { key: 6 value: 100 } allowed_ids: 5 allowed_ids: 6 "
      "banned_ids: 7 } stopping { min_tokens: 2 max_tokens: 0 max_time_ms: "
      "1500 ignore_eos: true } output { prompt_logprobs: true echo: true } n: "
      "3 cache_salt: 's' cache_bypass: true priority: PRIORITY_HIGH",
      &want));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
      gateway.generated, want))
      << gateway.generated.ShortDebugString();
}

TEST(GenerateVerb, PrintsThePromptThenEachChoiceBelowItsNumber) {
  FakeGateway gateway;
  gateway.script.emplace_back().mutable_prompt()->set_text("2+3=");
  gateway.Say(v1::CHANNEL_CONTENT, "fi", /*choice=*/0);
  gateway.Say(v1::CHANNEL_CONTENT, "5", /*choice=*/1);
  gateway.Finish(1);
  gateway.Say(v1::CHANNEL_CONTENT, "ve", /*choice=*/0);
  gateway.Finish(0);

  const Outcome outcome =
      RunProgram("phalanx", {"generate", "--address", gateway.address,
                             "--prompt", "2+3=", "--echo", "-n", "2"});

  EXPECT_EQ(outcome.out, "2+3=\n\n[1]\nfive\n\n[2]\n5\n");
}

TEST(GenerateVerb, TellsNoticesApartFromTheAnswer) {
  FakeGateway gateway;
  gateway.Say(v1::CHANNEL_CONTENT, "fi");
  gateway.script.emplace_back().mutable_notice()->set_kind(v1::Notice::RESUMED);
  gateway.Say(v1::CHANNEL_CONTENT, "ve");

  const Outcome outcome = RunProgram(
      "phalanx", {"generate", "--address", gateway.address, "--prompt", "a"});

  EXPECT_EQ(outcome.out, "five\n");
  EXPECT_EQ(outcome.err,
            "phalanx generate: a part of the service died; the answer goes on "
            "as if it had not\n");
}

TEST(ChatVerb, AnswersOneMessageSeveralTimes) {
  FakeGateway gateway;
  gateway.Say(v1::CHANNEL_REASONING, "hm", /*choice=*/0);
  gateway.Say(v1::CHANNEL_CONTENT, "5", /*choice=*/1);
  gateway.Say(v1::CHANNEL_CONTENT, "five", /*choice=*/0);
  gateway.Finish(0);
  gateway.Finish(1);

  const Outcome outcome =
      RunProgram("phalanx", {"chat", "--address", gateway.address, "-n", "2",
                             "--banned-ids", "1,2", "2 + 3?"});

  EXPECT_EQ(outcome.out, "[1]\nhm\n\nfive\n\n[2]\n5\n");
  EXPECT_EQ(gateway.chats.at(0).n(), 2);
}

}  // namespace
}  // namespace phalanx
