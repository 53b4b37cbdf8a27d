#include "gateway/api/active_requests.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/reason.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

struct CountingStream final : ActiveRequests::Stream {
  bool CancelByClient() override { return ++cancels == 1; }
  bool EndForDrain() override { return ++drains == 1; }
  int cancels = 0;
  int drains = 0;
};

class ActiveRequestsTest : public testing::Test {
 protected:
  std::shared_ptr<CountingStream> Add(const std::string& id,
                                      const std::string& tag = "") {
    auto stream = std::make_shared<CountingStream>();
    EXPECT_OK(active_.Add(id, tag, stream));
    return stream;
  }

  ActiveRequests active_;
};

TEST_F(ActiveRequestsTest, AnIdIsServedOnceAtATime) {
  const auto stream = Add("a");
  const absl::Status second = active_.Add("a", "", stream);
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kAlreadyExists,
                               "request_id a is being served already"));
  EXPECT_EQ(ReasonOf(second).word, "REQUEST_ACTIVE");
  active_.Remove("a");
  EXPECT_OK(active_.Add("a", "", stream));
}

TEST_F(ActiveRequestsTest, CancelReachesTheStreamOfThatIdAlone) {
  const auto a = Add("a");
  const auto b = Add("b");
  EXPECT_EQ(active_.Cancel("a"), 1);
  EXPECT_EQ(active_.Cancel("c"), 0);
  EXPECT_EQ(a->cancels, 1);
  EXPECT_EQ(b->cancels, 0);
}

TEST_F(ActiveRequestsTest, CancelTagReachesEveryStreamOfTheTag) {
  const auto a = Add("a", "red");
  const auto b = Add("b", "red");
  const auto c = Add("c", "blue");
  EXPECT_EQ(active_.CancelTag("red"), 2);
  EXPECT_EQ(c->cancels, 0);
}

TEST_F(ActiveRequestsTest, CancelAllReachesAll) {
  const auto a = Add("a");
  const auto b = Add("b", "red");
  EXPECT_EQ(active_.CancelAll(), 2);
}

TEST_F(ActiveRequestsTest, DrainAllHandsOverAllAndCancelsNone) {
  const auto a = Add("a");
  const auto b = Add("b", "red");
  EXPECT_EQ(active_.DrainAll(), 2);
  EXPECT_EQ(active_.DrainAll(), 0);
  EXPECT_EQ(a->cancels + b->cancels, 0);
}

TEST_F(ActiveRequestsTest, AStreamThatIsOverIsNotCounted) {
  const auto a = Add("a");
  EXPECT_EQ(active_.Cancel("a"), 1);
  EXPECT_EQ(active_.Cancel("a"), 0);
}

TEST_F(ActiveRequestsTest, KeepsNoStreamAlive) {
  std::weak_ptr<CountingStream> seen;
  {
    const auto a = Add("a");
    seen = a;
  }
  EXPECT_TRUE(seen.expired());
  EXPECT_EQ(active_.Cancel("a"), 0);
}

}  // namespace
}  // namespace phalanx
