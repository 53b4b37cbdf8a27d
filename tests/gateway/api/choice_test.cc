#include "gateway/api/choice.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/gateway/api/api_fixtures.h"
#include "tests/gateway/api/scripted_answer.h"

namespace phalanx {
namespace {

// Reasoning, code points of several bytes, a stop string that is held back.
const std::vector<int32_t> kAnswer =
    BytesOf("m\u00e9m</think>\n\no\u20ack STO STOP and more");

std::vector<int32_t> IdsIn(const std::vector<v1::Delta>& deltas) {
  std::vector<int32_t> ids;
  for (const v1::Delta& delta : deltas)
    ids.insert(ids.end(), delta.token_ids().begin(), delta.token_ids().end());
  return ids;
}

// By channel.
std::array<std::string, kChannels> TextsOf(
    const std::vector<v1::Delta>& deltas) {
  std::array<std::string, kChannels> texts;
  for (const v1::Delta& delta : deltas)
    texts[delta.channel() - v1::CHANNEL_CONTENT] += delta.text();
  return texts;
}

TextBytes BytesIn(const std::vector<v1::Delta>& deltas) {
  TextBytes bytes = {};
  for (int channel = 0; channel < kChannels; ++channel)
    bytes[channel] = static_cast<int64_t>(TextsOf(deltas)[channel].size());
  return bytes;
}

class ChoiceTest : public testing::Test {
 protected:
  ChoiceTest() {
    request_.starts_in_reasoning = true;
    request_.stop_strings = {"STOP"};
    request_.wants_logprobs = true;
    request_.worker.set_max_tokens(1000);
    request_.worker.add_stop_ids(261);
  }
  Choice Make() { return Choice(request_, tokenizer_.get(), /*index=*/2); }

  // Deltas as the client gets them, token by token.
  void Take(std::vector<v1::Delta> deltas, Choice& choice, Received& received) {
    std::vector<v1::GenerateEvent> events;
    for (v1::Delta& delta : deltas) {
      choice.Sent(delta);
      *events.emplace_back().mutable_delta() = std::move(delta);
    }
    received.Add(events);
  }
  void Run(Choice& choice, size_t from, size_t until, Received& received) {
    for (size_t i = from; i < until; ++i)
      Take(choice.Push(TokensOf({kAnswer[i]})), choice, received);
  }
  Received Whole() {
    Choice choice = Make();
    Received received;
    Run(choice, 0, kAnswer.size(), received);
    Take(choice.End({}).deltas, choice, received);
    return received;
  }

  // All deltas of an answer, those that were held back included.
  std::vector<v1::Delta> DeltasOf(const std::vector<int32_t>& answer) {
    Choice choice = Make();
    std::vector<v1::Delta> all;
    const auto add = [&](const std::vector<v1::Delta>& deltas) {
      all.insert(all.end(), deltas.begin(), deltas.end());
    };
    for (const int32_t id : answer) add(choice.Push(TokensOf({id})));
    add(choice.End({}).deltas);
    return all;
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = MakeSmallTokenizer();
  PreparedRequest request_;
};

TEST_F(ChoiceTest, KeepsTheIdsItTookAndNoneBehindAStopString) {
  Choice choice = Make();
  Received received;
  Run(choice, 0, kAnswer.size(), received);
  EXPECT_TRUE(choice.stopped());
  EXPECT_EQ(choice.emitted(), received.choices[2].ids);
  EXPECT_LT(choice.emitted().size(), kAnswer.size());
  EXPECT_EQ(choice.End({}).finished.matched_stop_string(), "STOP");
}

TEST_F(ChoiceTest, ComputedAgainGivesWhatItsClientHasNot) {
  const Received whole = Whole();
  for (size_t cut = 0; cut <= kAnswer.size(); ++cut) {
    Choice first = Make();
    Received received;
    Run(first, 0, cut, received);
    Choice second = Make();
    second.Restore(first.sent(), std::nullopt);
    Run(second, 0, kAnswer.size(), received);
    Take(second.End({}).deltas, second, received);
    EXPECT_EQ(received.choices, whole.choices) << "cut at " << cut;
    EXPECT_EQ(second.withheld_tokens(), first.tokens());
  }
}

TEST_F(ChoiceTest, RestoredFromItsIdsGivesWhatItsClientHasNot) {
  const Received whole = Whole();
  for (size_t cut = 0; cut <= kAnswer.size(); ++cut) {
    Choice first = Make();
    Received received;
    Run(first, 0, cut, received);
    Choice second = Make();
    Take(second.Restore(first.sent(), first.emitted()), second, received);
    if (!second.stopped()) Run(second, cut, kAnswer.size(), received);
    Take(second.End({}).deltas, second, received);
    EXPECT_EQ(received.choices, whole.choices) << "cut at " << cut;
    EXPECT_EQ(second.withheld_tokens(), 0);
    EXPECT_EQ(second.restored_tokens(), first.tokens());
  }
}

TEST_F(ChoiceTest, RestoredFromMoreIdsThanItsTokenKnowsOf) {
  const Received whole = Whole();
  for (size_t cut = 0; cut <= kAnswer.size(); ++cut) {
    Choice first = Make();
    Received received;
    Run(first, 0, cut, received);
    Choice second = Make();
    Take(second.Restore(SentPart(), first.emitted()), second, received);
    if (!second.stopped()) Run(second, cut, kAnswer.size(), received);
    Take(second.End({}).deltas, second, received);
    EXPECT_EQ(received.choices, whole.choices) << "cut at " << cut;
  }
}

// A gateway may be lost between any two events: of one token, too, and between
// the last text, here the beginning of a stop string, and Finished.
TEST_F(ChoiceTest, RestoredFromIdsAndTextAtEveryEventGivesTheRest) {
  for (const std::string text : {"mm</think>\n\nok STO", "mm ST"}) {
    const std::vector<int32_t> answer = BytesOf(text);
    const std::vector<v1::Delta> deltas = DeltasOf(answer);
    for (size_t cut = 0; cut <= deltas.size(); ++cut) {
      std::vector<v1::Delta> had(deltas.begin(), deltas.begin() + cut);
      const std::vector<int32_t> emitted = IdsIn(had);
      const TextBytes seen = BytesIn(had);
      Choice second = Make();
      const auto add = [&](const std::vector<v1::Delta>& more) {
        had.insert(had.end(), more.begin(), more.end());
      };
      add(second.Restore(SentPart(), emitted, &seen));
      for (size_t i = emitted.size(); i < answer.size(); ++i)
        add(second.Push(TokensOf({answer[i]})));
      add(second.End({}).deltas);
      EXPECT_EQ(TextsOf(had), TextsOf(deltas)) << text << " cut at " << cut;
      EXPECT_EQ(IdsIn(had), answer);
    }
  }
}

TEST_F(ChoiceTest, SentSaysTheSameOfTwoStreamsAsOfOne) {
  Choice first = Make();
  Received received;
  Run(first, 0, 6, received);
  Choice second = Make();
  second.Restore(first.sent(), std::nullopt);
  EXPECT_EQ(second.sent(), first.sent());
  Run(first, 6, 9, received);
  Run(second, 0, 9, received);
  EXPECT_EQ(second.sent(), first.sent());
  EXPECT_EQ(second.sent().tokens, 9);
  EXPECT_EQ(second.sent().ids_digest,
            IdsDigest({kAnswer.data(), static_cast<size_t>(9)}));
}

TEST_F(ChoiceTest, IsWholeBehindAStopId) {
  Choice choice = Make();
  choice.Push(TokensOf({'a'}));
  EXPECT_FALSE(choice.Whole().has_value());
  choice.Push(TokensOf({261}));
  ASSERT_TRUE(choice.Whole().has_value());
  EXPECT_EQ(choice.Whole()->reason(), v1::WorkerFinished::STOP);
  EXPECT_EQ(choice.Whole()->stop_id(), 261);
}

TEST_F(ChoiceTest, IsWholeAtItsLength) {
  request_.worker.set_max_tokens(2);
  Choice choice = Make();
  choice.Push(TokensOf({'a'}));
  EXPECT_FALSE(choice.Whole().has_value());
  choice.Push(TokensOf({'b'}));
  EXPECT_EQ(choice.Whole()->reason(), v1::WorkerFinished::LENGTH);
}

TEST_F(ChoiceTest, EndsAsTheWorkerSays) {
  const auto reason = [this](v1::WorkerFinished::Reason why) {
    v1::WorkerFinished finished;
    finished.set_reason(why);
    return Make().End(finished);
  };
  EXPECT_EQ(reason(v1::WorkerFinished::STOP).outcome, RequestOutcome::kStop);
  EXPECT_EQ(reason(v1::WorkerFinished::LENGTH).outcome,
            RequestOutcome::kLength);
  const Choice::Ending late = reason(v1::WorkerFinished::TIME_LIMIT);
  EXPECT_EQ(late.outcome, RequestOutcome::kTimeLimit);
  EXPECT_EQ(late.finished.reason(), v1::FINISH_REASON_TIME_LIMIT);
  EXPECT_EQ(late.finished.index(), 2);
}

}  // namespace
}  // namespace phalanx
