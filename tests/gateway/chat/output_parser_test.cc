#include "gateway/chat/output_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace phalanx {
namespace {

struct Outcome {
  std::string reasoning;
  std::string content;
  std::optional<std::string> stop;

  bool operator==(const Outcome&) const = default;
};

void Add(const std::vector<Piece>& pieces, Outcome& outcome) {
  for (const Piece& piece : pieces) {
    (piece.channel == Channel::kReasoning ? outcome.reasoning
                                          : outcome.content) += piece.text;
  }
}

Outcome Parse(const OutputParserOptions& options,
              const std::vector<std::string>& chunks) {
  OutputParser parser(options);
  Outcome outcome;
  for (const std::string& chunk : chunks) Add(parser.Push(chunk), outcome);
  Add(parser.Flush(), outcome);
  outcome.stop = parser.matched_stop();
  return outcome;
}

OutputParserOptions Reasoning() { return {true, {}, false}; }

TEST(PromptOpensReasoning, IsTrueWhenThePromptEndsWithAnOpenThink) {
  EXPECT_TRUE(PromptOpensReasoning("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(PromptOpensReasoning("assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(PromptOpensReasoning("<think> what?<|im_start|>assistant\n"));
}

TEST(OutputParser, SplitsAtTheMarkerAndDropsTheNewlinesAroundIt) {
  const Outcome outcome =
      Parse(Reasoning(), {"Two and\n\nthree.\n</think>\n\n5\n\nDone.\n"});

  EXPECT_EQ(outcome.reasoning, "Two and\n\nthree.");
  EXPECT_EQ(outcome.content, "5\n\nDone.\n");
}

TEST(OutputParser, GivesContentOnlyWhenItDoesNotStartInReasoning) {
  const Outcome outcome = Parse({}, {"\na </think> b\n"});

  EXPECT_EQ(outcome.reasoning, "");
  EXPECT_EQ(outcome.content, "\na </think> b\n");
}

TEST(OutputParser, GivesReasoningOnlyWhenNoMarkerComes) {
  const Outcome outcome = Parse(Reasoning(), {"on and on\n</thi"});

  EXPECT_EQ(outcome.reasoning, "on and on\n</thi");
  EXPECT_EQ(outcome.content, "");
}

TEST(OutputParser, EndsReasoningWhereAToolCallBeginsAndKeepsTheCall) {
  const Outcome outcome =
      Parse(Reasoning(), {"Look it up.\n\n<tool_call>\n<function=now>"});

  EXPECT_EQ(outcome.reasoning, "Look it up.");
  EXPECT_EQ(outcome.content, "<tool_call>\n<function=now>");
}

TEST(OutputParser, DeliversAtOnceWhatCannotBePartOfAMarker) {
  OutputParser parser(Reasoning());

  EXPECT_EQ(parser.Push("one < two"),
            (std::vector<Piece>{{Channel::kReasoning, "one < two"}}));
  EXPECT_EQ(parser.Push(" </th"),
            (std::vector<Piece>{{Channel::kReasoning, " "}}));
  EXPECT_EQ(parser.Push("ere"),
            (std::vector<Piece>{{Channel::kReasoning, "</there"}}));
}

TEST(OutputParser, TakesAMarkerThatStartsInsideAFalseOne) {
  const Outcome outcome = Parse(Reasoning(), {"a</thi</think>b"});

  EXPECT_EQ(outcome.reasoning, "a</thi");
  EXPECT_EQ(outcome.content, "b");
}

TEST(OutputParser, StopsAtAStopStringAndDropsItAndTheRest) {
  const Outcome outcome = Parse({false, {"END"}, false}, {"a E END b END"});

  EXPECT_EQ(outcome.content, "a E ");
  EXPECT_EQ(outcome.stop, "END");
}

TEST(OutputParser, DeliversTheStopStringWhenAskedTo) {
  const Outcome outcome = Parse({false, {"END"}, true}, {"a END b"});

  EXPECT_EQ(outcome.content, "a END");
}

TEST(OutputParser, TakesTheStopStringThatIsCompleteFirst) {
  const Outcome outcome = Parse({false, {"abcd", "bc"}, false}, {"xabcd"});

  EXPECT_EQ(outcome.content, "xa");
  EXPECT_EQ(outcome.stop, "bc");
}

TEST(OutputParser, TakesTheLongestOfStopStringsThatEndTogether) {
  const Outcome outcome = Parse({false, {"c", "abc"}, false}, {"xabc"});

  EXPECT_EQ(outcome.content, "x");
  EXPECT_EQ(outcome.stop, "abc");
}

TEST(OutputParser, ReleasesAHalfStopStringAtTheEnd) {
  const Outcome outcome = Parse({false, {"END"}, false}, {"a EN"});

  EXPECT_EQ(outcome.content, "a EN");
  EXPECT_EQ(outcome.stop, std::nullopt);
}

TEST(OutputParser, IgnoresEmptyStopStrings) {
  EXPECT_EQ(Parse({false, {""}, false}, {"abc"}).content, "abc");
}

TEST(OutputParser, DropsAllTextBehindAStopString) {
  OutputParser parser({false, {"!"}, false});
  parser.Push("a!");

  EXPECT_TRUE(parser.Push("b").empty());
  EXPECT_TRUE(parser.Flush().empty());
}

TEST(OutputParser, ReplacesACodePointThatNeverEnds) {
  EXPECT_EQ(Parse({}, {"a\xf0\x9f\x99"}).content, "a\xef\xbf\xbd");
}

bool WholeCodePoints(const std::string& text) {
  // The texts below are valid, so looking at both ends is enough.
  if (text.empty() || (static_cast<unsigned char>(text[0]) & 0xc0) == 0x80) {
    return false;
  }
  size_t lead = text.size() - 1;
  while ((static_cast<unsigned char>(text[lead]) & 0xc0) == 0x80) --lead;
  const auto byte = static_cast<unsigned char>(text[lead]);
  const size_t length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
  return lead + length == text.size();
}

class OutputParserChunks : public testing::TestWithParam<OutputParserOptions> {
};

const char* const kTexts[] = {
    "h\xc3\xa9llo \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x99\x82\n\n</think>\n\n"
    "x\n\xe4\xbd\xa0STOP y",
    "</think>",
    "\n\n</think>\n",
    "a\n<tool_call>\nb</tool_call>\n\n",
    "<</think></think>\n\n\n",
    "a\n\n\n<\n</think\n</think>\nST\xc3\xa9STSTOPOP",
};

TEST_P(OutputParserChunks, GiveTheSameTextHoweverItIsCut) {
  for (const std::string text : kTexts) {
    SCOPED_TRACE(text);
    const Outcome whole = Parse(GetParam(), {text});
    std::vector<std::string> bytes;
    for (char c : text) bytes.emplace_back(1, c);
    EXPECT_EQ(Parse(GetParam(), bytes), whole);
    for (size_t a = 0; a <= text.size(); ++a) {
      for (size_t b = a; b <= text.size(); ++b) {
        ASSERT_EQ(Parse(GetParam(), {text.substr(0, a), text.substr(a, b - a),
                                     text.substr(b)}),
                  whole)
            << a << " " << b;
      }
    }
  }
}

TEST_P(OutputParserChunks, HoldWholeCodePoints) {
  for (const std::string text : kTexts) {
    OutputParser parser(GetParam());
    for (char c : text) {
      for (const Piece& piece : parser.Push(std::string(1, c))) {
        EXPECT_TRUE(WholeCodePoints(piece.text)) << piece.text;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, OutputParserChunks,
    testing::Values(
        OutputParserOptions{true, {}, false},
        OutputParserOptions{false, {}, false},
        OutputParserOptions{true, {"STOP", "TOPO"}, false},
        OutputParserOptions{true, {"\n\n", "\xe4\xbd\xa0\xe5\xa5\xbd"}, true},
        OutputParserOptions{true, {"think>", "</think>\n\n"}, true},
        OutputParserOptions{false, {"STSTO", "\xc3\xa9ST"}, false}));

}  // namespace
}  // namespace phalanx
