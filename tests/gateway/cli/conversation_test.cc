#include "gateway/cli/conversation.h"

#include "common/reason.h"
#include "gateway/cli/client.h"
#include "tests/gateway/cli/fake_gateway.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class ConversationTest : public testing::Test {
 protected:
  ConversationTest() {
    gateway_.Say(v1::CHANNEL_REASONING, "two and three");
    gateway_.Say(v1::CHANNEL_CONTENT, "fi");
    gateway_.Say(v1::CHANNEL_CONTENT, "ve");
  }

  static void Ignore(const v1::GenerateEvent&) {}

  FakeGateway gateway_;
  std::unique_ptr<v1::Inference::Stub> stub_ =
      v1::Inference::NewStub(ChannelTo(gateway_.address));
  Conversation conversation_{*stub_, v1::ChatRequest()};
};

TEST_F(ConversationTest, ShowsEveryEventInOrder) {
  std::string text;

  ASSERT_OK(conversation_.Ask("2 + 3?", [&](const v1::GenerateEvent& event) {
    text += event.delta().text() + "|";
  }));

  EXPECT_EQ(text, "two and three|fi|ve|");
}

TEST_F(ConversationTest, SendsTheAnswerAndItsReasoningWithTheNextQuestion) {
  ASSERT_OK(conversation_.Ask("2 + 3?", Ignore));

  ASSERT_OK(conversation_.Ask("Sure?", Ignore));

  const v1::ChatRequest& second = gateway_.chats[1];
  ASSERT_EQ(second.messages_size(), 3);
  EXPECT_EQ(second.messages(0).content(), "2 + 3?");
  EXPECT_EQ(second.messages(1).role(), "assistant");
  EXPECT_EQ(second.messages(1).content(), "five");
  EXPECT_EQ(second.messages(1).reasoning_content(), "two and three");
  EXPECT_EQ(second.messages(2).content(), "Sure?");
}

TEST_F(ConversationTest, ForgetsAQuestionThatGotNoAnswer) {
  gateway_.script.clear();
  gateway_.end = absl::UnavailableError("no");

  EXPECT_THAT(conversation_.Ask("2 + 3?", Ignore),
              StatusIs(absl::StatusCode::kUnavailable, "no"));

  EXPECT_THAT(conversation_.request().messages(), IsEmpty());
}

TEST_F(ConversationTest, KeepsWhatCameBeforeItWasCancelled) {
  gateway_.holds = true;

  const absl::Status status =
      conversation_.Ask("2 + 3?", [&](const v1::GenerateEvent& event) {
        if (event.delta().text() == "ve") conversation_.Cancel();
      });

  EXPECT_TRUE(absl::IsCancelled(status));
  ASSERT_EQ(conversation_.request().messages_size(), 2);
  EXPECT_EQ(conversation_.request().messages(1).content(), "five");
}

TEST_F(ConversationTest, KnowsWhetherItWasCancelledFromHere) {
  gateway_.end = absl::CancelledError("stopping");

  const absl::Status status = conversation_.Ask("2 + 3?", Ignore);

  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_FALSE(conversation_.cancelled());
}

TEST_F(ConversationTest, HasNothingToCancelBetweenAnswers) {
  ASSERT_OK(conversation_.Ask("2 + 3?", Ignore));

  EXPECT_FALSE(conversation_.Cancel());
}

TEST_F(ConversationTest, KeepsTheSystemMessageWhenItStartsOver) {
  v1::ChatRequest request;
  request.add_messages()->set_role("system");
  Conversation conversation(*stub_, request);
  ASSERT_OK(conversation.Ask("2 + 3?", Ignore));

  conversation.StartOver();

  ASSERT_EQ(conversation.request().messages_size(), 1);
  EXPECT_EQ(conversation.request().messages(0).role(), "system");
}

TEST(PlainWords, SayWhatToDoWhereNobodyAnswers) {
  EXPECT_EQ(PlainWords(absl::UnavailableError("tcp"), "h:1"),
            "no service answers at h:1; start one with `phalanx serve`");
}

TEST(PlainWords, SayThatALostGroupComesBack) {
  EXPECT_THAT(PlainWords(ReasonedError(absl::StatusCode::kUnavailable,
                                       "GROUP_LOST", "rank 1"),
                         "h:1"),
              HasSubstr("is being restarted"));
}

TEST(PlainWords, GiveTheServicesOwnOtherwise) {
  EXPECT_EQ(PlainWords(ReasonedError(absl::StatusCode::kInvalidArgument,
                                     "BAD_FIELD", "n is 2"),
                       "h:1"),
            "INVALID_ARGUMENT/BAD_FIELD: n is 2");
}

}  // namespace
}  // namespace phalanx
