#ifndef PHALANX_GATEWAY_CLI_PLAN_H_
#define PHALANX_GATEWAY_CLI_PLAN_H_

#include "absl/status/statusor.h"
#include "common/flag_list.h"

namespace phalanx {

inline constexpr char kPlanVerb[] = "plan";

// `phalanx plan ...`: becomes `phalanx-worker plan ...`, which knows how a rank
// lays out memory, with the same arguments; argv[0] is "plan". Returns only if
// that program is not beside this one: 1, told on stderr.
int RunPlan(int argc, char** argv);

// Its flags, asked of that program. NOT_FOUND if it is not there, or does not
// say.
absl::StatusOr<VerbEntry> ListPlanFlags();

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_PLAN_H_
