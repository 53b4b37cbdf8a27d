#ifndef PHALANX_COMMON_STATUS_H_
#define PHALANX_COMMON_STATUS_H_

// Two propagation macros over absl::Status, and nothing else.
//
// Debian 12 ships Abseil 20220623, which predates absl/status/status_macros.h.
// The semantics match the upstream macros, so that header can replace this one.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expr)                                         \
  do {                                                                \
    if (absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  PHALANX_ASSIGN_OR_RETURN_(PHALANX_CONCAT_(statusor_, __LINE__), lhs, expr)

#define PHALANX_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return std::move(tmp).status();  \
  lhs = *std::move(tmp)
#define PHALANX_CONCAT_(a, b) PHALANX_CONCAT_INNER_(a, b)
#define PHALANX_CONCAT_INNER_(a, b) a##b

#endif  // PHALANX_COMMON_STATUS_H_
