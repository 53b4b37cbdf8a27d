#include "gateway/api/text_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/gateway/api/api_fixtures.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

// What a client has once the stream is over.
struct Received {
  std::string content;
  std::string reasoning;
  std::vector<int32_t> ids;
  std::vector<int32_t> logprob_ids;

  void Add(const std::vector<v1::Delta>& deltas) {
    for (const v1::Delta& delta : deltas) {
      (delta.channel() == v1::CHANNEL_REASONING ? reasoning : content) +=
          delta.text();
      ids.insert(ids.end(), delta.token_ids().begin(), delta.token_ids().end());
      for (const v1::TokenLogprob& logprob : delta.logprobs())
        logprob_ids.push_back(logprob.token_id());
    }
  }
  bool operator==(const Received&) const = default;
};

class TextPipelineTest : public testing::Test {
 protected:
  // All of `ids` in one event, and the end.
  Received Run(const std::vector<int32_t>& ids) {
    TextPipeline pipeline(request_, tokenizer_.get());
    Received received;
    received.Add(pipeline.Push(TokensOf(ids)));
    received.Add(pipeline.Flush());
    return received;
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = MakeSmallTokenizer();
  PreparedRequest request_;
};

TEST_F(TextPipelineTest, GivesIdsAndTheirText) {
  const Received received = Run({'h', 'i', 259});
  EXPECT_EQ(received.content, "hihello");
  EXPECT_THAT(received.ids, ElementsAre('h', 'i', 259));
}

TEST_F(TextPipelineTest, WhatAClientHasDoesNotDependOnTheCut) {
  request_.starts_in_reasoning = true;
  request_.stop_strings = {"STOP", "Straße"};
  request_.wants_logprobs = true;
  const std::vector<int32_t> ids =
      BytesOf("thinking ä\n</think>\n\nGrüße, Straß S STO STOP and more");
  const Received whole = Run(ids);
  EXPECT_EQ(whole.reasoning, "thinking ä");
  EXPECT_EQ(whole.content, "Grüße, Straß S STO ");
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    TextPipeline pipeline(request_, tokenizer_.get());
    Received received;
    for (size_t from = 0; from < ids.size();) {
      const size_t to = std::min(ids.size(), from + 1 + random() % 5);
      received.Add(
          pipeline.Push(TokensOf({ids.begin() + from, ids.begin() + to})));
      from = to;
    }
    received.Add(pipeline.Flush());
    EXPECT_TRUE(received == whole);
    EXPECT_EQ(pipeline.matched_stop(), "STOP");
  }
}

TEST_F(TextPipelineTest, TextIsAlwaysWholeUtf8) {
  TextPipeline pipeline(request_, tokenizer_.get());
  EXPECT_EQ(pipeline.Push(TokensOf({0xC3}))[0].text(), "");
  EXPECT_EQ(pipeline.Push(TokensOf({0xA4}))[0].text(), "ä");
}

TEST_F(TextPipelineTest, AStopTokenHasAnIdAndNoText) {
  request_.worker.add_stop_ids('x');
  const Received received = Run({'a', 'x'});
  EXPECT_EQ(received.content, "a");
  EXPECT_THAT(received.ids, ElementsAre('a', 'x'));
}

TEST_F(TextPipelineTest, AStopTokenThatComesBeforeTheFinishHasNoTextEither) {
  request_.worker.add_stop_ids('x');
  TextPipeline pipeline(request_, tokenizer_.get());
  Received received;
  received.Add(pipeline.Push(TokensOf({'x'})));
  received.Add(pipeline.Push(TokensOf({})));  // The event with the finish.
  received.Add(pipeline.Flush());
  EXPECT_EQ(received.content, "");
}

TEST_F(TextPipelineTest, StopsTakingTokensAtAStopString) {
  request_.stop_strings = {"b"};
  TextPipeline pipeline(request_, tokenizer_.get());
  Received received;
  received.Add(pipeline.Push(TokensOf({'a', 'b', 'c'})));
  EXPECT_EQ(pipeline.matched_stop(), "b");
  received.Add(pipeline.Push(TokensOf({'d'})));
  EXPECT_EQ(received.content, "a");
  EXPECT_THAT(received.ids, ElementsAre('a', 'b'));
  EXPECT_EQ(pipeline.tokens(), 2);
}

TEST_F(TextPipelineTest, CountsTheTokensOfReasoning) {
  request_.starts_in_reasoning = true;
  TextPipeline pipeline(request_, tokenizer_.get());
  pipeline.Push(TokensOf(BytesOf("ab</think>cd")));
  EXPECT_EQ(pipeline.tokens(), 12);
  EXPECT_EQ(pipeline.reasoning_tokens(), 10);
}

TEST_F(TextPipelineTest, EveryIdHasItsLogprobInTheSameDelta) {
  request_.wants_logprobs = true;
  request_.starts_in_reasoning = true;
  auto tokens = TokensOf(BytesOf("a</think>b"));
  for (v1::WorkerToken& token : tokens) {
    token.set_logprob(-0.25f);
    token.add_top()->set_token_id(token.token_id());
  }
  TextPipeline pipeline(request_, tokenizer_.get());
  for (const v1::Delta& delta : pipeline.Push(tokens)) {
    ASSERT_EQ(delta.logprobs_size(), delta.token_ids_size());
    for (int i = 0; i < delta.logprobs_size(); ++i) {
      EXPECT_EQ(delta.logprobs(i).token_id(), delta.token_ids(i));
      EXPECT_EQ(delta.logprobs(i).logprob(), -0.25f);
      EXPECT_EQ(delta.logprobs(i).top(0).token_id(), delta.token_ids(i));
    }
  }
}

TEST_F(TextPipelineTest, WithoutTokenizerThereAreIdsAlone) {
  request_.wants_text = false;
  TextPipeline pipeline(request_, nullptr);
  Received received;
  received.Add(pipeline.Push(TokensOf({'a', 299})));
  received.Add(pipeline.Flush());
  EXPECT_EQ(received.content, "");
  EXPECT_THAT(received.ids, ElementsAre('a', 299));
}

TEST_F(TextPipelineTest, TextThatNobodyWantsStillEndsAtAStopString) {
  request_.wants_text = false;
  request_.stop_strings = {"b"};
  TextPipeline pipeline(request_, tokenizer_.get());
  Received received;
  received.Add(pipeline.Push(TokensOf({'a', 'b'})));
  EXPECT_EQ(received.content, "");
  EXPECT_EQ(pipeline.matched_stop(), "b");
}

}  // namespace
}  // namespace phalanx
