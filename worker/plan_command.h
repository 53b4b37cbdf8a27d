#ifndef PHALANX_WORKER_PLAN_COMMAND_H_
#define PHALANX_WORKER_PLAN_COMMAND_H_

// `phalanx-worker plan`, which `phalanx plan` runs: what each card of a group
// would hold, before anything is allocated or even downloaded.

#include <span>
#include <string>
#include <vector>

#include "worker/plan/memory_plan.h"

namespace phalanx {

// One line a plan, for a person, and below it what was assumed of them. What
// offload fetches for a token is given as tokens/s, too, where `read_gbps`,
// 1e9 bytes a second that the host reads experts with, is known: above 0.
std::string PlanTable(std::span<const MemoryPlan> plans,
                      const PlanRequest& request, double read_gbps = 0);

// One JSON array: an object a plan, with the plan's fields under their names
// from tp_size to state_slots, and in offload those about fetches.
std::string PlanJson(std::span<const MemoryPlan> plans, double read_gbps = 0);

// argv[0] is "plan". Prints a plan for each TP size in each mode; those that do
// not fit are told on stderr instead. The exit code: 0; 1 if something did not
// fit or the model is not to be read; above 100 for a wrong flag.
int RunPlanCommand(int argc, char** argv);

}  // namespace phalanx

#endif  // PHALANX_WORKER_PLAN_COMMAND_H_
