#include "gateway/admission/admission.h"

#include <gtest/gtest.h>

#include <utility>

#include "common/reason.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

TEST(Admission, RefusesWhatIsAboveItsLimitAndNamesIt) {
  Admission admission(1);
  const auto first = admission.Enter();
  ASSERT_OK(first);
  const absl::Status second = admission.Enter().status();
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kResourceExhausted,
                               "this gateway holds 1 requests, its limit "
                               "(--max-requests)"));
  EXPECT_EQ(ReasonOf(second).word, "QUEUE_FULL");
  EXPECT_EQ(ReasonOf(second).metadata.at("limit"), "1");
  EXPECT_EQ(admission.held(), 1);
}

TEST(Admission, GetsThePlaceBackWhenTheTicketDies) {
  Admission admission(1);
  { const auto ticket = admission.Enter(); }
  EXPECT_EQ(admission.held(), 0);
  EXPECT_OK(admission.Enter());
}

TEST(Admission, AMovedTicketIsGivenBackOnce) {
  Admission admission(2);
  Ticket ticket = *admission.Enter();
  Ticket other = std::move(ticket);
  EXPECT_EQ(admission.held(), 1);
  other = Ticket();
  EXPECT_EQ(admission.held(), 0);
}

TEST(Admission, LetsNobodyInOnceItIsClosed) {
  Admission admission(2);
  admission.Close();
  const absl::Status status = admission.Enter().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status).word, "DRAINING");
}

TEST(Admission, WhoComesWhileItDrainsIsLetIn) {
  Admission admission(1);
  admission.BeginDrain();
  EXPECT_TRUE(admission.draining());
  EXPECT_FALSE(admission.closed());
  EXPECT_OK(admission.Enter());
}

TEST(Admission, CountsThoseThatCameToAClosedDoor) {
  Admission admission(1);
  EXPECT_OK(admission.Enter());
  admission.Close();
  EXPECT_FALSE(admission.Enter().ok());
  EXPECT_FALSE(admission.Enter().ok());
  EXPECT_EQ(admission.turned_away(), 2);
}

}  // namespace
}  // namespace phalanx
