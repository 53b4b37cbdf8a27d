#ifndef PHALANX_GATEWAY_CLI_WORKER_VERB_H_
#define PHALANX_GATEWAY_CLI_WORKER_VERB_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/flag_list.h"

namespace phalanx {

// Verbs of `phalanx` that are the worker's, whose files this side may not
// include: it becomes `phalanx-worker VERB`, with the same arguments.
struct WorkerVerb {
  const char* verb;         // As typed: "plan", "bench".
  const char* what;         // The word after it; empty: none.
  const char* worker_verb;  // The worker's verb: "plan", "bench-model".
};
std::span<const WorkerVerb> WorkerVerbs();

// The one that these arguments begin with, argv[0] being the program; null if
// they are none of them.
const WorkerVerb* FindWorkerVerb(int argc, char** argv);

// Becomes it. Returns only if phalanx-worker is not beside this program: 1,
// told on stderr.
int RunWorkerVerb(const WorkerVerb& verb, int argc, char** argv);

// Its flags, asked of phalanx-worker. NOT_FOUND if that is not there, or does
// not say.
absl::StatusOr<VerbEntry> ListWorkerFlags(const WorkerVerb& verb);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_WORKER_VERB_H_
