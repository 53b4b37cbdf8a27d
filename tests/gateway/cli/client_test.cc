#include "gateway/cli/client.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"

namespace phalanx {
namespace {

std::string Words(v1::Notice::Kind kind, const std::string& detail = "") {
  v1::Notice notice;
  notice.set_kind(kind);
  notice.set_detail(detail);
  return NoticeWords(notice);
}

TEST(Describe, SaysWhatACallThatIsNotServedMeans) {
  EXPECT_EQ(Describe(absl::UnimplementedError("")),
            "UNIMPLEMENTED: whoever answers at this address does not serve "
            "this call; it may be the clients' port instead of the operators', "
            "or the other way round, or another version");
  EXPECT_EQ(Describe(absl::UnimplementedError("no tools here")),
            "UNIMPLEMENTED: no tools here");
}

TEST(NoticeWords, SayWhatBecomesOfTheAnswer) {
  EXPECT_EQ(Words(v1::Notice::RESUMED),
            "a part of the service died; the answer goes on as if it had not");
  EXPECT_EQ(Words(v1::Notice::PREEMPTED),
            "the answer waits for others; it goes on as if it had not");
  EXPECT_EQ(Words(v1::Notice::DEGRADED),
            "the answer goes on where it is computed differently; from here "
            "on it may not be what it would have been");
}

TEST(NoticeWords, EndWithTheServicesOwnDetail) {
  EXPECT_EQ(Words(v1::Notice::PREEMPTED, "twice"),
            "the answer waits for others; it goes on as if it had not (twice)");
}

TEST(NoticeWords, AreTheDetailWhereThatSaysItAll) {
  EXPECT_EQ(Words(v1::Notice::TRUNCATED, "max_tokens was cut to 5"),
            "max_tokens was cut to 5");
}

}  // namespace
}  // namespace phalanx
