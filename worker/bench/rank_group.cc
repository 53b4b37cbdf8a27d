#include "worker/bench/rank_group.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "common/status.h"
#include "worker/collective/shm.h"

namespace phalanx {
namespace {

// The child's side of a fork. Never returns.
[[noreturn]] void BecomeRank(WorkerConfig flags, int rank, pid_t parent,
                             const PrepareRank& prepare,
                             const std::string& shm_name,
                             JsonChannel* channel) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  flags.rank = rank;
  const int code = RunBenchRank(flags, prepare, shm_name, channel);
  std::fflush(nullptr);
  _exit(code);  // What the parent would do at its own exit is not ours.
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Start(
    const WorkerConfig& flags, const PrepareRank& prepare) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ResourceExhaustedError("no socket to a rank");
  std::unique_ptr<RankGroup> group(
      new RankGroup(std::make_unique<JsonChannel>(ends[0])));
  // Dies with this function, so that only rank 0 has that end.
  auto rank_end = std::make_unique<JsonChannel>(ends[1]);
  const std::string shm_name = NewShmName(/*epoch=*/1);
  const pid_t parent = getpid();
  std::fflush(nullptr);
  for (int rank = 0; rank < flags.tp_size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0)
      BecomeRank(flags, rank, parent, prepare, shm_name,
                 rank == 0 ? rank_end.get() : nullptr);
    if (pid < 0) return absl::ResourceExhaustedError("no process for a rank");
    group->pids_.push_back(pid);
    if (rank == 0) rank_end.reset();
  }
  return group;
}

RankGroup::~RankGroup() {
  for (const pid_t pid : pids_) kill(pid, SIGKILL);
  for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
}

absl::StatusOr<nlohmann::json> RankGroup::Answer() {
  ASSIGN_OR_RETURN(nlohmann::json answer, channel_->Receive());
  if (answer.contains("error"))
    return absl::AbortedError(answer["error"].get<std::string>());
  return answer;
}

absl::StatusOr<RankFacts> RankGroup::AwaitLoaded() {
  ASSIGN_OR_RETURN(const nlohmann::json answer, Answer());
  return RankFactsOf(answer);
}

absl::StatusOr<PassResult> RankGroup::Run(const PassRequest& request) {
  RETURN_IF_ERROR(channel_->Send(ToJson(request)));
  ASSIGN_OR_RETURN(const nlohmann::json answer, Answer());
  return PassResultOf(answer);
}

absl::StatusOr<int64_t> RankGroup::End() {
  RETURN_IF_ERROR(channel_->Send({{"end", true}}));
  ASSIGN_OR_RETURN(const nlohmann::json answer, Answer());
  for (const pid_t pid : std::exchange(pids_, {})) waitpid(pid, nullptr, 0);
  return answer["peak_bytes"].get<int64_t>();
}

}  // namespace phalanx
