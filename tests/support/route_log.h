#ifndef PHALANX_TESTS_SUPPORT_ROUTE_LOG_H_
#define PHALANX_TESTS_SUPPORT_ROUTE_LOG_H_

#include <cstdint>
#include <vector>

#include "tests/support/tp_group.h"

namespace phalanx {

// Which experts were chosen: one entry for each call of Ops::Route, in order,
// [T * K] ascending within a token.
using RouteLog = std::vector<std::vector<int32_t>>;

// Backends that do what those of `inner` do and write down every routing. For
// groups of one rank: the log, which outlives them, is not locked.
BackendFactory LogRoutes(BackendFactory inner, RouteLog* log);

}  // namespace phalanx

#endif  // PHALANX_TESTS_SUPPORT_ROUTE_LOG_H_
