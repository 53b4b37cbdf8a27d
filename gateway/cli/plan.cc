#include "gateway/cli/plan.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "gateway/cli/child_process.h"

namespace phalanx {

int RunPlan(int argc, char** argv) {
  std::string worker = ProgramFolder() + "/phalanx-worker";
  std::vector<char*> args = {worker.data()};
  args.insert(args.end(), argv, argv + argc);
  args.push_back(nullptr);
  execv(worker.c_str(), args.data());
  std::fprintf(stderr, "phalanx plan: %s cannot be run: %s\n", worker.c_str(),
               std::strerror(errno));
  return 1;
}

}  // namespace phalanx
