#ifndef PHALANX_GATEWAY_CLI_WORKER_VERB_H_
#define PHALANX_GATEWAY_CLI_WORKER_VERB_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/flag_list.h"

namespace phalanx {

// Verbs that are phalanx-worker's, which knows how weights and memory are laid
// out.
struct WorkerVerb {
  const char* name;
  const char* help;
};
inline constexpr WorkerVerb kWorkerVerbs[] = {
    {"plan", "Show what each card of a group would hold"},
    {"quantize", "Make a model's folder in int8 or int4"},
};

bool IsWorkerVerb(const std::string& name);

// `phalanx VERB ...`: becomes `phalanx-worker VERB ...` with the same
// arguments; argv[0] is the verb. Returns only if that program is not beside
// this one: 1, told on stderr.
int RunWorkerVerb(int argc, char** argv);

// The verb's flags, asked of that program. NOT_FOUND if it is not there, or
// does not say.
absl::StatusOr<VerbEntry> ListWorkerFlags(std::string verb);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_WORKER_VERB_H_
