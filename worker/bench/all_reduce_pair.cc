#include "worker/bench/all_reduce_pair.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "common/status.h"
#include "worker/collective/shm.h"

namespace phalanx {
namespace {

constexpr int64_t kHidden = 2048;
constexpr int64_t kMostRows = 512;

ShmConfig ConfigOf(const std::string& name, int rank) {
  ShmConfig config;
  config.name = name;
  config.rank = rank;
  config.size = 2;
  config.epoch = 1;
  return config;
}

void Sum(Collective& comm, int64_t rows, std::vector<float>& partial,
         std::vector<uint16_t>& sum) {
  comm.AllReduceSum(MakeTensor(partial.data(), DType::kF32, rows, kHidden),
                    MakeTensor(sum.data(), DType::kBf16, rows, kHidden));
}

// The child: as many sums as rank 0 says, until it says none or is gone.
[[noreturn]] void Answer(const std::string& name, int cpu) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
  auto comm = JoinShmGroup(ConfigOf(name, 1));
  if (!comm.ok()) _exit(1);
  std::vector<float> partial(kMostRows * kHidden, 1.0f);
  std::vector<uint16_t> sum(kMostRows * kHidden);
  std::string words;
  while ((*comm)->Broadcast(words).ok() && !words.empty()) {
    const std::vector<std::string> numbers = absl::StrSplit(words, ' ');
    int64_t rows = 0, calls = 0;
    CHECK(numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &rows) &&
          absl::SimpleAtoi(numbers[1], &calls));
    for (int64_t i = 0; i < calls; ++i) Sum(**comm, rows, partial, sum);
  }
  _exit(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllReducePair>> AllReducePair::Start(
    const std::vector<int>& cpus) {
  CHECK(cpus.size() >= 2);
  const std::string name = NewShmName(/*epoch=*/1);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) Answer(name, cpus[1]);
  if (child < 0)
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot start a process for rank 1 of 2: ", strerror(errno)));
  std::unique_ptr<AllReducePair> pair(new AllReducePair(child));
  ASSIGN_OR_RETURN(pair->comm_, JoinShmGroup(ConfigOf(name, 0)));
  pair->partial_.resize(kMostRows * kHidden, 1.0f);
  pair->sum_.resize(kMostRows * kHidden);
  return pair;
}

AllReducePair::~AllReducePair() {
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

std::vector<KernelCase> AllReducePair::Cases() {
  std::vector<KernelCase> cases;
  for (const int64_t rows : {int64_t{1}, kMostRows}) {
    // Its own and the other's; from caches, if they hold them.
    const int64_t bytes = 2 * rows * kHidden * 4;
    cases.push_back(
        {.work = {.name = "all-reduce, 2 ranks",
                  .format = "",
                  .rows = rows,
                  .bytes = rows == 1 ? 0.0 : static_cast<double>(bytes),
                  .flops = 0,
                  .peak = Peak::kNone,
                  .to_and_fro = true},
         .call = [=, this](int64_t) { Sum(*comm_, rows, partial_, sum_); },
         .begin =
             [=, this](int64_t calls) {
               std::string words = absl::StrCat(rows, " ", calls);
               // Of a pair that is over, status() tells; its calls are empty.
               comm_->Broadcast(words).IgnoreError();
             }});
  }
  return cases;
}

}  // namespace phalanx
