#include "common/grpc_status.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/reason.h"
#include "google/rpc/status.pb.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

TEST(Reason, IsCarriedByTheStatus) {
  const absl::Status status =
      ReasonedError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
                    "64 held; at most 64", {{"limit", "64"}});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               "64 held; at most 64"));
  EXPECT_EQ(ReasonOf(status).word, "QUEUE_FULL");
  EXPECT_EQ(ReasonOf(status).metadata.at("limit"), "64");
}

TEST(Reason, IsEmptyWhereNoneWasGiven) {
  EXPECT_EQ(ReasonOf(absl::InternalError("x")).word, "");
  EXPECT_EQ(ReasonOf(absl::OkStatus()).word, "");
}

TEST(GrpcStatus, AReasonComesThroughTheWire) {
  const absl::Status sent =
      ReasonedError(absl::StatusCode::kUnavailable, "GROUP_LOST", "rank 1",
                    {{"rank", "1"}, {"cause", "naïve"}});
  EXPECT_EQ(FromGrpc(ToGrpc(sent)), sent);
}

TEST(GrpcStatus, AStatusWithoutReasonComesThroughToo) {
  const absl::Status sent = absl::NotFoundError("no such thing");
  EXPECT_EQ(FromGrpc(ToGrpc(sent)), sent);
  EXPECT_TRUE(ToGrpc(sent).error_details().empty());
}

TEST(GrpcStatus, OkIsOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_OK(FromGrpc(grpc::Status::OK));
}

TEST(GrpcStatus, DetailsAreGoogleRpcs) {
  const grpc::Status status = ToGrpc(
      ReasonedError(absl::StatusCode::kInvalidArgument, "BAD_FIELD", "n is 0"));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), grpc::StatusCode::INVALID_ARGUMENT);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.domain(), "phalanx");
}

TEST(GrpcStatus, EqualErrorsAreEqualBytesInEveryProcess) {
  std::map<std::string, std::string> metadata;
  for (char c = 'a'; c <= 'z'; ++c) metadata[std::string("key-") + c] = "value";

  const std::string details =
      ToGrpc(ReasonedError(absl::StatusCode::kInternal, "BUG", "x", metadata))
          .error_details();

  // A map's own order differs from one to the next; these ascend.
  size_t before = 0;
  for (const auto& [key, value] : metadata) {
    const size_t at = details.find(key);
    ASSERT_NE(at, std::string::npos) << key;
    EXPECT_GT(at, before) << key;
    before = at;
  }
}

TEST(GrpcStatus, ALongMessageIsCutTo2KiB) {
  const std::string longer(3000, 'x');
  EXPECT_EQ(ToGrpc(absl::InternalError(longer)).error_message(),
            std::string(2048, 'x'));
}

TEST(GrpcStatus, TheCutCountsBytesAsTheyAreSpelledInAHeader) {
  std::string longer;
  while (longer.size() < 3000) longer += "ä";
  const std::string message =
      ToGrpc(absl::InternalError(longer)).error_message();
  EXPECT_EQ(message.size(), 2048u / 6 * 2);  // Six bytes a letter.
}

TEST(GrpcStatus, TheCutIsBetweenCodePointsSoThatTheReasonSurvives) {
  for (int shift = 0; shift < 4; ++shift) {
    std::string longer(shift, 'x');
    while (longer.size() < 3000) longer += "\xf0\x9f\x98\x80";
    const absl::Status got = FromGrpc(ToGrpc(ReasonedError(
        absl::StatusCode::kInternal, "BUG", longer, {{"cause", longer}})));
    EXPECT_EQ(ReasonOf(got).word, "BUG");
    EXPECT_EQ((got.message().size() - shift) % 4, 0u);
    EXPECT_LE(ReasonOf(got).metadata.at("cause").size(), 512u);
  }
}

TEST(GrpcStatus, AResumeTokenIsNotCut) {
  const std::string token(1024, 't');
  const absl::Status got =
      FromGrpc(ToGrpc(ReasonedError(absl::StatusCode::kUnavailable, "DRAINING",
                                    "why", {{"resume_token", token}})));
  EXPECT_EQ(ReasonOf(got).metadata.at("resume_token"), token);
}

TEST(GrpcStatus, ForeignDetailsAreDropped) {
  const grpc::Status foreign(grpc::StatusCode::ABORTED, "x", "no protobuf");
  EXPECT_EQ(FromGrpc(foreign), absl::AbortedError("x"));
}

}  // namespace
}  // namespace phalanx
