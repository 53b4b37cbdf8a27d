#ifndef PHALANX_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define PHALANX_TESTS_SUPPORT_STATUS_MATCHERS_H_

// IsOk() and StatusIs(code, message matcher), for Status and StatusOr alike.
// Debian's Abseil predates absl/status/status_matchers.h.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phalanx {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P2(StatusIs, code, message, "") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         testing::ExplainMatchResult(message, std::string(status.message()),
                                     result_listener);
}

}  // namespace phalanx

#define ASSERT_OK(expression) ASSERT_THAT(expression, ::phalanx::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT(expression, ::phalanx::IsOk())

#endif  // PHALANX_TESTS_SUPPORT_STATUS_MATCHERS_H_
