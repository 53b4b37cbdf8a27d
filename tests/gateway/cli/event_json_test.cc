#include "gateway/cli/event_json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using nlohmann::json;

v1::GenerateEvent EventOfOneToken(float logprob) {
  v1::GenerateEvent event;
  event.set_request_id("r");
  event.set_seq(2);
  v1::Delta& delta = *event.mutable_delta();
  delta.set_text("a\n\"b");
  delta.add_token_ids(7);
  v1::TokenLogprob& token = *delta.add_logprobs();
  token.set_token_id(7);
  token.set_logprob(logprob);
  return event;
}

TEST(EventJson, HasTheEventAloneAtTheTopUnderItsProtoName) {
  const json parsed = json::parse(EventJson(EventOfOneToken(-1)));

  EXPECT_EQ(parsed.size(), 1u);
  EXPECT_EQ(parsed["delta"]["text"], "a\n\"b");
  EXPECT_EQ(parsed["delta"]["token_ids"], json::array({7}));
  EXPECT_EQ(parsed["delta"]["logprobs"][0]["token_id"], 7);
}

TEST(EventJson, IsOneLine) {
  EXPECT_EQ(EventJson(EventOfOneToken(-1)).find('\n'), std::string::npos);
}

TEST(EventJson, KeepsEveryBitOfALogprob) {
  const float logprob = -1.2345678f;

  const json parsed = json::parse(EventJson(EventOfOneToken(logprob)));

  EXPECT_EQ(parsed["delta"]["logprobs"][0]["logprob"].get<float>(), logprob);
}

TEST(EventJson, WritesALogprobOfZero) {
  const json parsed = json::parse(EventJson(EventOfOneToken(0)));

  EXPECT_EQ(parsed["delta"]["logprobs"][0]["logprob"], 0.0);
}

TEST(EventJson, WritesEmptyTextAndIds) {
  v1::GenerateEvent event;
  event.mutable_delta();

  const json parsed = json::parse(EventJson(event));

  EXPECT_EQ(parsed["delta"]["text"], "");
  EXPECT_EQ(parsed["delta"]["token_ids"], json::array());
}

TEST(EventJson, LeavesOutAStopThatDidNotMatch) {
  v1::GenerateEvent event;
  event.mutable_finished()->set_reason(v1::FINISH_REASON_LENGTH);

  const json parsed = json::parse(EventJson(event));

  EXPECT_EQ(parsed["finished"]["reason"], "FINISH_REASON_LENGTH");
  EXPECT_FALSE(parsed["finished"].contains("matched_stop_id"));
}

TEST(EventJson, OfNoEventIsAnEmptyObject) {
  EXPECT_EQ(EventJson(v1::GenerateEvent()), "{}");
}

}  // namespace
}  // namespace phalanx
