#include "worker/bench/json_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

class JsonChannelTest : public testing::Test {
 protected:
  JsonChannelTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    here_ = std::make_unique<JsonChannel>(ends[0]);
    there_ = std::make_unique<JsonChannel>(ends[1]);
  }

  std::unique_ptr<JsonChannel> here_;
  std::unique_ptr<JsonChannel> there_;
};

TEST_F(JsonChannelTest, KeepsValuesApartThatArriveTogether) {
  ASSERT_OK(here_->Send({{"a", 1}}));
  ASSERT_OK(here_->Send({{"b", "line\nbreak"}}));

  EXPECT_EQ((*there_->Receive())["a"], 1);
  EXPECT_EQ((*there_->Receive())["b"], "line\nbreak");
}

TEST_F(JsonChannelTest, SendsTextThatIsNoUtf8) {
  ASSERT_OK(here_->Send({{"error", "/models/\xff is truncated"}}));

  EXPECT_EQ((*there_->Receive())["error"], "/models/\xEF\xBF\xBD is truncated");
}

TEST_F(JsonChannelTest, TellsThatTheOtherProcessIsGone) {
  there_.reset();

  EXPECT_THAT(here_->Receive(),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_THAT(here_->Send({{"a", 1}}),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
}

}  // namespace
}  // namespace phalanx
