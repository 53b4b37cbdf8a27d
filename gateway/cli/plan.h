#ifndef PHALANX_GATEWAY_CLI_PLAN_H_
#define PHALANX_GATEWAY_CLI_PLAN_H_

namespace phalanx {

// `phalanx plan ...`: becomes `phalanx-worker plan ...`, which knows how a rank
// lays out memory, with the same arguments; argv[0] is "plan". Returns only if
// that program is not beside this one: 1, told on stderr.
int RunPlan(int argc, char** argv);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_PLAN_H_
