#include "gateway/api/event_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

using testing::ElementsAre;

v1::Delta DeltaOf(int index, v1::Channel channel, int32_t id) {
  v1::Delta delta;
  delta.set_index(index);
  delta.set_channel(channel);
  delta.set_text(std::string(1, static_cast<char>(id)));
  delta.add_token_ids(id);
  delta.add_logprobs()->set_token_id(id);
  return delta;
}

v1::GenerateEvent NoticeEvent() {
  v1::GenerateEvent event;
  event.mutable_notice()->set_detail("why");
  return event;
}

class EventQueueTest : public testing::Test {
 protected:
  EventQueue queue_{"me"};
};

TEST_F(EventQueueTest, NumbersEventsAsTheyLeave) {
  queue_.Push(NoticeEvent());
  queue_.Push(NoticeEvent());
  EXPECT_EQ(queue_.Pop().event.seq(), 1u);
  const EventQueue::Entry second = queue_.Pop();
  EXPECT_EQ(second.event.seq(), 2u);
  EXPECT_EQ(second.event.request_id(), "me");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(EventQueueTest, WaitingDeltasOfOneChannelBecomeOne) {
  queue_.Push(DeltaOf(0, v1::CHANNEL_CONTENT, 'a'), 1);
  queue_.Push(DeltaOf(0, v1::CHANNEL_CONTENT, 'b'), 1);
  EXPECT_EQ(queue_.size(), 2);
  const EventQueue::Entry entry = queue_.Pop();
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(entry.tokens, 2);
  const v1::Delta& delta = entry.event.delta();
  EXPECT_EQ(delta.text(), "ab");
  EXPECT_THAT(delta.token_ids(), ElementsAre('a', 'b'));
  ASSERT_EQ(delta.logprobs_size(), 2);
  EXPECT_EQ(delta.logprobs(0).token_id(), 'a');
  EXPECT_EQ(delta.logprobs(1).token_id(), 'b');
}

TEST_F(EventQueueTest, DeltasOfOtherChoicesAndChannelsStayApart) {
  queue_.Push(DeltaOf(0, v1::CHANNEL_REASONING, 'a'), 1);
  queue_.Push(DeltaOf(0, v1::CHANNEL_CONTENT, 'b'), 1);
  queue_.Push(DeltaOf(1, v1::CHANNEL_CONTENT, 'c'), 1);
  for (const char* text : {"a", "b", "c"})
    EXPECT_EQ(queue_.Pop().event.delta().text(), text);
}

TEST_F(EventQueueTest, ADeltaDoesNotOvertakeAnEvent) {
  queue_.Push(DeltaOf(0, v1::CHANNEL_CONTENT, 'a'), 1);
  queue_.Push(NoticeEvent());
  queue_.Push(DeltaOf(0, v1::CHANNEL_CONTENT, 'b'), 1);
  EXPECT_EQ(queue_.Pop().event.delta().text(), "a");
  EXPECT_TRUE(queue_.Pop().event.has_notice());
  EXPECT_EQ(queue_.Pop().event.delta().text(), "b");
}

TEST_F(EventQueueTest, CountsWhatWaits) {
  EXPECT_EQ(queue_.bytes(), 0);
  queue_.Push(DeltaOf(0, v1::CHANNEL_CONTENT, 'a'), 1);
  const int64_t one = queue_.bytes();
  EXPECT_GT(one, 0);
  queue_.Push(DeltaOf(0, v1::CHANNEL_CONTENT, 'b'), 1);
  EXPECT_EQ(queue_.bytes(), 2 * one);
  queue_.Pop();
  EXPECT_EQ(queue_.bytes(), 0);
  EXPECT_EQ(queue_.size(), 0);
  queue_.Push(NoticeEvent());
  queue_.Clear();
  EXPECT_EQ(queue_.bytes(), 0);
  EXPECT_EQ(queue_.size(), 0);
}

}  // namespace
}  // namespace phalanx
