// What is special to shared memory between processes: forming, death, idling
// and what is left behind. The ranks here are real processes where it matters.

#include "worker/collective/shm.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/reason.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/collective/groups.h"

namespace phalanx {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// A rank in a process of its own; killed and reaped at the end of the test.
class RankProcess {
 public:
  // body returns whether all was well.
  template <typename Body>
  explicit RankProcess(Body body) : pid_(fork()) {
    if (pid_ == 0) _exit(body() ? 0 : 1);
  }
  ~RankProcess() {
    if (pid_ <= 0) return;
    Signal(SIGKILL);
    Succeeded();
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void Signal(int signal) { kill(pid_, signal); }

  // Waits for its end.
  bool Succeeded() {
    int result = 0;
    waitpid(pid_, &result, 0);
    pid_ = 0;
    return WIFEXITED(result) && WEXITSTATUS(result) == 0;
  }

 private:
  pid_t pid_;
};

ShmConfig WithRank(ShmConfig config, int rank) {
  config.rank = rank;
  return config;
}

// Joins as `rank` and then does nothing until it is killed.
auto IdleRank(const ShmConfig& config, int rank) {
  return [config = WithRank(config, rank)] {
    const auto joined = JoinShmGroup(config);
    while (joined.ok()) pause();
    return false;
  };
}

std::string PathOf(const ShmConfig& config) {
  return absl::StrCat("/dev/shm", config.name);
}

// Returns once rank 0 has made the segment.
void AwaitSegment(const ShmConfig& config) {
  while (access(PathOf(config).c_str(), F_OK) != 0) std::this_thread::yield();
}

TEST(ShmProcesses, AddTheirPartialsInTreeOrder) {
  const ShmConfig config = ShmConfigOf(4);
  std::vector<std::vector<float>> partials;
  for (int r = 0; r < 4; ++r) partials.push_back(Values(r, 9000));
  const auto want = PairwiseSum(partials);
  const auto rank_body = [&](int rank) {
    return [&, rank] {
      auto group = JoinShmGroup(WithRank(config, rank));
      if (!group.ok()) return false;
      for (int i = 0; i < 50; ++i) {
        std::vector<float> data = partials[rank];
        const Tensor tensor = MakeTensor(data.data(), DType::kF32, 9, 1000);
        (*group)->AllReduceSum(tensor, tensor);
        if (std::memcmp(data.data(), want.data(), 9000 * sizeof(float)) != 0)
          return false;
      }
      return (*group)->status().ok();
    };
  };

  RankProcess one(rank_body(1));
  RankProcess two(rank_body(2));
  RankProcess three(rank_body(3));
  EXPECT_TRUE(rank_body(0)());
  EXPECT_TRUE(one.Succeeded() && two.Succeeded() && three.Succeeded());
  EXPECT_EQ(SegmentsLeft(), 0);
}

TEST(ShmProcesses, AKilledPeerEndsTheWaitOfAllOthersSoon) {
  const ShmConfig config = ShmConfigOf(4);
  const auto bystander = [&](int rank) {
    return [&, rank] {
      auto group = JoinShmGroup(WithRank(config, rank));
      return group.ok() && (*group)->Barrier().ok() &&
             ReasonOf((*group)->Barrier()).metadata.at("rank") == "2";
    };
  };
  RankProcess one(bystander(1));
  RankProcess victim([&] {
    auto group = JoinShmGroup(WithRank(config, 2));
    while (group.ok() && (*group)->Barrier().ok()) pause();
    return false;
  });
  RankProcess three(bystander(3));
  auto group = JoinShmGroup(config);
  ASSERT_OK(group);
  ASSERT_OK((*group)->Barrier());
  std::future<absl::Status> wait =
      std::async(std::launch::async, [&] { return (*group)->Barrier(); });

  const MonotonicClock clock;
  const double killed_seconds = clock.now_seconds();
  victim.Signal(SIGKILL);
  const absl::Status status = wait.get();

  EXPECT_LT(clock.now_seconds() - killed_seconds, 1);  // 0.2 when undisturbed.
  EXPECT_EQ(ReasonOf(status).word, "GROUP_LOST");
  EXPECT_EQ(ReasonOf(status).metadata.at("rank"), "2");
  EXPECT_EQ(ReasonOf(status).metadata.at("epoch"), "5");
  EXPECT_TRUE(one.Succeeded() && three.Succeeded());
}

TEST(ShmProcesses, AStoppedPeerIsWaitedFor) {
  const ShmConfig config = ShmConfigOf(2);
  RankProcess peer([&] {
    auto group = JoinShmGroup(WithRank(config, 1));
    if (!group.ok()) return false;
    raise(SIGSTOP);
    return (*group)->Barrier().ok();
  });
  auto group = JoinShmGroup(config);
  ASSERT_OK(group);
  std::future<absl::Status> wait =
      std::async(std::launch::async, [&] { return (*group)->Barrier(); });

  EXPECT_EQ(wait.wait_for(milliseconds(350)), std::future_status::timeout);
  EXPECT_EQ((*group)->awaited_rank(), 1);
  // Until it has stopped, in case it had not yet.
  while (wait.wait_for(milliseconds(1)) == std::future_status::timeout)
    peer.Signal(SIGCONT);
  EXPECT_OK(wait.get());
  EXPECT_EQ((*group)->awaited_rank(), -1);
  EXPECT_TRUE(peer.Succeeded());
}

TEST(ShmProcesses, AbortReachesOtherProcesses) {
  const ShmConfig config = ShmConfigOf(2);
  RankProcess peer([&] {
    auto group = JoinShmGroup(WithRank(config, 1));
    std::string bytes;
    return group.ok() &&
           ReasonOf((*group)->Broadcast(bytes)).metadata.at("cause") ==
               "drained";
  });
  auto group = JoinShmGroup(config);
  ASSERT_OK(group);

  (*group)->Abort(absl::UnavailableError("drained"));

  EXPECT_TRUE(peer.Succeeded());
}

TEST(ShmProcesses, LeaveNothingWhenAllAreKilled) {
  const ShmConfig config = ShmConfigOf(2);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const auto report_and_idle = [&](int rank) {
    return [&, rank] {
      const auto joined = JoinShmGroup(WithRank(config, rank));
      if (!joined.ok() || write(pipe_ends[1], "+", 1) != 1) return false;
      while (true) pause();
    };
  };
  {
    RankProcess zero(report_and_idle(0));
    RankProcess one(report_and_idle(1));
    char reports[2];
    ASSERT_EQ(read(pipe_ends[0], reports, 1), 1);
    ASSERT_EQ(read(pipe_ends[0], reports + 1, 1), 1);
  }

  EXPECT_EQ(SegmentsLeft(), 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(ShmProcesses, ThatFindRankZeroDeadClearUpAfterIt) {
  const ShmConfig config = ShmConfigOf(4);
  {
    RankProcess zero(IdleRank(config, 0));
    while (access(PathOf(config).c_str(), F_OK) != 0) std::this_thread::yield();
  }
  ASSERT_EQ(SegmentsLeft(), 1);
  ShmConfig survivor = WithRank(config, 1);
  // Should rank 0 have died before it had filled the segment.
  survivor.timeout_seconds = 0.5;

  EXPECT_EQ(ReasonOf(JoinShmGroup(survivor).status()).metadata.at("rank"), "0");
  EXPECT_EQ(SegmentsLeft(), 0);
}

TEST(ShmIdle, WaitingCostsLessThanAHundredthOfACpu) {
  const Group group =
      MakeGroup({.transport = Transport::kShm, .size = 2, .spin = true});
  std::future<double> busy = std::async(std::launch::async, [&] {
    const auto cpu_seconds = [] {
      rusage usage;
      getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
             1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    };
    const double before = cpu_seconds();
    std::string bytes;
    EXPECT_OK(group[1]->Broadcast(bytes));
    return cpu_seconds() - before;
  });

  ASSERT_EQ(busy.wait_for(milliseconds(900)), std::future_status::timeout);
  std::string bytes = "plan";
  EXPECT_OK(group[0]->Broadcast(bytes));

  EXPECT_LT(busy.get(), 0.009);
}

TEST(ShmForming, FailsWithTheRankThatDoesNotComeAndLeavesNothing) {
  ShmConfig config = ShmConfigOf(2);
  config.timeout_seconds = 0.05;

  const absl::Status status = JoinShmGroup(config).status();

  EXPECT_EQ(ReasonOf(status).word, "GROUP_LOST");
  EXPECT_EQ(ReasonOf(status).metadata.at("rank"), "1");
  EXPECT_EQ(SegmentsLeft(), 0);
}

TEST(ShmForming, FailsWithoutRankZero) {
  ShmConfig config = WithRank(ShmConfigOf(2), 1);
  config.timeout_seconds = 0.05;

  EXPECT_EQ(ReasonOf(JoinShmGroup(config).status()).metadata.at("rank"), "0");
}

TEST(ShmForming, OneThatGivesUpTellsTheOthersAtOnce) {
  ShmConfig config = ShmConfigOf(4);
  std::future<absl::Status> patient = std::async(
      std::launch::async, [&] { return JoinShmGroup(config).status(); });
  ShmConfig hasty = WithRank(config, 1);
  hasty.timeout_seconds = 0.3;
  AwaitSegment(config);

  const absl::Status status = JoinShmGroup(hasty).status();

  EXPECT_EQ(ReasonOf(status).metadata.at("rank"), "2");
  EXPECT_EQ(patient.get().message(), status.message());
  EXPECT_EQ(SegmentsLeft(), 0);
}

TEST(ShmForming, EndsForAllWhenItIsCalledOffForOne) {
  const ShmConfig config = ShmConfigOf(4);
  std::future<absl::Status> patient = std::async(
      std::launch::async, [&] { return JoinShmGroup(config).status(); });
  ShmConfig told = WithRank(config, 1);
  told.called_off = [] { return absl::UnavailableError("rank 2 is gone"); };
  AwaitSegment(config);

  const absl::Status status = JoinShmGroup(told).status();

  EXPECT_EQ(status, absl::UnavailableError("rank 2 is gone"));
  EXPECT_THAT(patient.get().message(), HasSubstr("rank 2 is gone"));
  EXPECT_EQ(SegmentsLeft(), 0);
}

TEST(ShmForming, MayBeCalledOffBeforeRankZeroHasCome) {
  ShmConfig config = WithRank(ShmConfigOf(2), 1);
  config.called_off = [] { return absl::UnavailableError("rank 0 is gone"); };

  EXPECT_EQ(JoinShmGroup(config).status(),
            absl::UnavailableError("rank 0 is gone"));
}

TEST(ShmForming, RefusesASegmentOfAnotherEpochOrShape) {
  const ShmConfig config = ShmConfigOf(2);
  std::future<absl::Status> zero = std::async(
      std::launch::async, [&] { return JoinShmGroup(config).status(); });
  ShmConfig other_epoch = WithRank(config, 1);
  other_epoch.epoch = 6;
  ShmConfig other_slots = WithRank(config, 1);
  other_slots.slot_bytes *= 2;

  EXPECT_THAT(JoinShmGroup(other_epoch),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is of epoch 5; this rank's is 6")));
  EXPECT_THAT(JoinShmGroup(other_slots),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("slot_bytes 2097152 need")));
  EXPECT_OK(JoinShmGroup(WithRank(config, 1)));
  EXPECT_OK(zero.get());
}

TEST(ShmForming, RefusesARankThatIsTaken) {
  const ShmConfig config = ShmConfigOf(4);
  RankProcess zero(IdleRank(config, 0));
  std::vector<std::future<absl::Status>> twins;
  ShmConfig twin = WithRank(config, 1);
  twin.timeout_seconds = 0.3;
  AwaitSegment(config);

  for (int i = 0; i < 2; ++i)
    twins.push_back(std::async(std::launch::async,
                               [&] { return JoinShmGroup(twin).status(); }));

  const bool first_is_refused = absl::IsFailedPrecondition(twins[0].get());
  EXPECT_NE(first_is_refused, absl::IsFailedPrecondition(twins[1].get()));
}

TEST(ShmForming, NeverReusesALeftover) {
  const ShmConfig config = ShmConfigOf(1);
  const int fd = shm_open(config.name.c_str(), O_CREAT | O_RDWR, 0600);

  EXPECT_THAT(JoinShmGroup(config),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("exists")));
  close(fd);
  shm_unlink(config.name.c_str());
}

TEST(ShmForming, RefusesASegmentThatOthersMayOpen) {
  const ShmConfig config = ShmConfigOf(2);
  const int fd = shm_open(config.name.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(fchmod(fd, 0666), 0);

  EXPECT_THAT(JoinShmGroup(WithRank(config, 1)),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("666")));
  close(fd);
  shm_unlink(config.name.c_str());
}

TEST(ShmForming, NamesTheFieldThatIsWrong) {
  const auto message = [](void (*spoil)(ShmConfig&)) {
    ShmConfig config = ShmConfigOf(2);
    spoil(config);
    const absl::Status status = JoinShmGroup(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };

  EXPECT_THAT(message([](ShmConfig& c) { c.size = 3; }),
              HasSubstr("size is 3"));
  EXPECT_THAT(message([](ShmConfig& c) { c.rank = 2; }),
              HasSubstr("rank is 2; must be 0..1"));
  EXPECT_THAT(message([](ShmConfig& c) { c.slot_bytes = 100; }),
              HasSubstr("slot_bytes is 100"));
  EXPECT_THAT(message([](ShmConfig& c) { c.timeout_seconds = 0; }),
              HasSubstr("timeout_seconds is 0"));
  EXPECT_THAT(message([](ShmConfig& c) { c.name = "/phalanx-../x"; }),
              HasSubstr("segment name"));
  EXPECT_THAT(message([](ShmConfig& c) { c.name = "/other"; }),
              HasSubstr("segment name"));
}

}  // namespace
}  // namespace phalanx
