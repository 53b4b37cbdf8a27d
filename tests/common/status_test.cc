#include "common/status.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

absl::StatusOr<std::unique_ptr<int>> Make(bool good) {
  if (!good) return absl::NotFoundError("none");
  return std::make_unique<int>(7);
}

absl::StatusOr<int> Twice(bool good) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> value, Make(good));
  return 2 * *value;
}

absl::Status Check(absl::Status status) {
  RETURN_IF_ERROR(status);
  return absl::AlreadyExistsError("went on");
}

TEST(Status, AssignOrReturnMovesTheValueOut) { EXPECT_EQ(*Twice(true), 14); }

TEST(Status, AssignOrReturnPassesTheErrorOn) {
  EXPECT_THAT(Twice(false), StatusIs(absl::StatusCode::kNotFound, "none"));
}

TEST(Status, ReturnIfErrorGoesOnAfterOk) {
  EXPECT_TRUE(absl::IsAlreadyExists(Check(absl::OkStatus())));
  EXPECT_TRUE(absl::IsInternal(Check(absl::InternalError("x"))));
}

}  // namespace
}  // namespace phalanx
