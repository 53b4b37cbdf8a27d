#include "gateway/cli/answer_view.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

v1::Delta Piece(v1::Channel channel, const std::string& text) {
  v1::Delta delta;
  delta.set_channel(channel);
  delta.set_text(text);
  return delta;
}

std::string Show(AnswerView view) {
  std::string shown = view.Add(Piece(v1::CHANNEL_REASONING, "\nhm"));
  shown += view.Add(Piece(v1::CHANNEL_CONTENT, "\n\n"));
  shown += view.Add(Piece(v1::CHANNEL_CONTENT, "five"));
  return shown + view.End();
}

TEST(AnswerView, DimsTheReasoningOnATerminal) {
  EXPECT_EQ(Show(AnswerView(/*terminal=*/true, /*color=*/true)),
            "\033[2mhm\033[0m\n\nfive\n");
}

TEST(AnswerView, IsPlainWithoutColor) {
  EXPECT_EQ(Show(AnswerView(/*terminal=*/true, /*color=*/false)),
            "hm\n\nfive\n");
}

TEST(AnswerView, IsPlainOffATerminal) {
  EXPECT_EQ(Show(AnswerView(/*terminal=*/false, /*color=*/true)),
            "hm\n\nfive\n");
}

TEST(AnswerView, LeavesControlCharactersOutOnATerminal) {
  AnswerView view(/*terminal=*/true, /*color=*/false);

  EXPECT_EQ(view.Add(Piece(v1::CHANNEL_CONTENT, "a\033[2J\tb\xC2\x9B\xC3\xA9")),
            "a[2J\tb\xC3\xA9");
}

TEST(AnswerView, EndsNoLineThatNeverBegan) {
  EXPECT_EQ(AnswerView(/*terminal=*/true, /*color=*/true).End(), "");
}

TEST(AnswerView, SaysThatAnAnswerWasCut) {
  v1::Summary summary;
  summary.set_completion_tokens(12);
  summary.set_time_to_first_token_seconds(0.009);
  summary.set_tokens_per_second(1043);

  EXPECT_EQ(AnswerView(/*terminal=*/true, /*color=*/false)
                .Timings(summary, v1::FINISH_REASON_LENGTH),
            "12 tokens, first after 9 ms, 1043 tokens/s, cut at the limit\n");
}

}  // namespace
}  // namespace phalanx
