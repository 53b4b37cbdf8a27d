#include "gateway/cli/progress_bar.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr int kWide = 120;

class ManualClock final : public Clock {
 public:
  double now_seconds() const override { return now; }
  double now = 100;
};

// A terminal of `columns`, and what has been written to it.
class Terminal {
 public:
  explicit Terminal(int columns) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(columns);
    EXPECT_EQ(openpty(&reader_, &fd_, nullptr, nullptr, &size), 0);
    EXPECT_EQ(fcntl(reader_, F_SETFL, O_NONBLOCK), 0);
  }
  ~Terminal() {
    close(reader_);
    close(fd_);
  }

  int fd() const { return fd_; }
  std::string Read() {
    char text[4096];
    const ssize_t n = read(reader_, text, sizeof(text));
    return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
  }

 private:
  int reader_ = -1;
  int fd_ = -1;
};

void AddRank(v1::GetStatusResponse& status, v1::RankState state,
             int64_t total_bytes, double progress) {
  if (status.groups_size() == 0) status.add_groups();
  v1::RankStatus& rank = *status.mutable_groups(0)->add_ranks();
  rank.set_reachable(true);
  rank.mutable_worker()->set_state(state);
  rank.mutable_worker()->set_load_total_bytes(total_bytes);
  rank.mutable_worker()->set_load_progress(progress);
}

TEST(LoadingOf, AddsRanksUp) {
  v1::GetStatusResponse status;
  AddRank(status, v1::RANK_STATE_LOADING, 400, 0.25);
  AddRank(status, v1::RANK_STATE_FORMING, 200, 1);

  const auto loading = LoadingOf(status);

  ASSERT_TRUE(loading.has_value());
  EXPECT_EQ(loading->done_bytes, 300);
  EXPECT_EQ(loading->total_bytes, 600);
}

TEST(LoadingOf, ExpectsOfARankThatIsSilentWhatTheOthersSay) {
  v1::GetStatusResponse status;
  AddRank(status, v1::RANK_STATE_LOADING, 400, 0.5);
  AddRank(status, v1::RANK_STATE_LOADING, 0, 0);
  status.mutable_groups(0)->add_ranks()->set_reachable(false);

  const auto loading = LoadingOf(status);

  ASSERT_TRUE(loading.has_value());
  EXPECT_EQ(loading->done_bytes, 200);
  EXPECT_EQ(loading->total_bytes, 1200);
}

TEST(LoadingOf, IsNothingBeforeAndAfter) {
  v1::GetStatusResponse before;
  AddRank(before, v1::RANK_STATE_LOADING, 0, 0);
  v1::GetStatusResponse after;
  AddRank(after, v1::RANK_STATE_READY, 400, 1);

  EXPECT_FALSE(LoadingOf(v1::GetStatusResponse()).has_value());
  EXPECT_FALSE(LoadingOf(before).has_value());
  EXPECT_FALSE(LoadingOf(after).has_value());
}

TEST(Percent, IsOnlyAHundredWhenAllIsThere) {
  EXPECT_EQ(Percent(0), 0);
  EXPECT_EQ(Percent(0.4399), 43);
  EXPECT_EQ(Percent(0.9999), 99);
  EXPECT_EQ(Percent(1), 100);
}

TEST(LoadingText, TellsEverything) {
  EXPECT_EQ(
      LoadingText({.done_bytes = 16.8e9, .total_bytes = 67e9}, 2.1e9, kWide),
      "loading  25%  [######..................]  16.8 of 67.0 GB  "
      "2.1 GB/s  24 s left");
}

TEST(LoadingText, LeavesOutASpeedThatIsNotKnown) {
  EXPECT_EQ(LoadingText({.done_bytes = 0, .total_bytes = 67e9}, 0, kWide),
            "loading   0%  [........................]  0.0 of 67.0 GB");
}

TEST(LoadingText, CountsMinutesFromSixtySecondsOn) {
  const LoadingState state = {.done_bytes = 0, .total_bytes = 100e9};

  EXPECT_THAT(LoadingText(state, 100e9 / 59.4, kWide),
              HasSubstr("  59 s left"));
  EXPECT_THAT(LoadingText(state, 100e9 / 59.6, kWide),
              HasSubstr("  1 min 00 s left"));
  EXPECT_THAT(LoadingText(state, 100e9 / 754.0, kWide),
              HasSubstr("  12 min 34 s left"));
  EXPECT_THAT(LoadingText(state, 1, kWide), HasSubstr("more than a day left"));
}

TEST(LoadingText, GivesUpTheBarBeforeTheNumbers) {
  const LoadingState state = {.done_bytes = 30e9, .total_bytes = 60e9};

  EXPECT_EQ(LoadingText(state, 1e9, 60),
            "loading  50%  30.0 of 60.0 GB  1.0 GB/s  30 s left");
  EXPECT_EQ(LoadingText(state, 1e9, 20), "loading  50%  30.0 o");
}

TEST(ProgressBar, RewritesItsLine) {
  Terminal terminal(kWide);
  ManualClock clock;
  ProgressBar bar(terminal.fd(), clock);
  bar.Show({.done_bytes = 0, .total_bytes = 10e9});
  clock.now += 2;

  bar.Show({.done_bytes = 4e9, .total_bytes = 10e9});

  EXPECT_EQ(terminal.Read(),
            "\rloading  40%  [#########...............]  4.0 of 10.0 GB  "
            "2.0 GB/s  3 s left\x1b[K");
}

TEST(ProgressBar, KeepsWithinTheTerminal) {
  Terminal terminal(30);
  ManualClock clock;
  ProgressBar bar(terminal.fd(), clock);
  bar.Show({.done_bytes = 0, .total_bytes = 10e9});
  clock.now += 2;

  bar.Show({.done_bytes = 4e9, .total_bytes = 10e9});

  EXPECT_EQ(terminal.Read(), "\rloading  40%  4.0 of 10.0 GB \x1b[K");
}

TEST(ProgressBar, SaysNothingOfAShortLoad) {
  Terminal terminal(kWide);
  ManualClock clock;
  ProgressBar bar(terminal.fd(), clock);

  bar.Show({.done_bytes = 0, .total_bytes = 10e9});
  clock.now += 0.4;
  bar.Show({.done_bytes = 9e9, .total_bytes = 10e9});
  bar.Clear();

  EXPECT_EQ(terminal.Read(), "");
}

TEST(ProgressBar, ComesBackAfterAClear) {
  Terminal terminal(kWide);
  ManualClock clock;
  ProgressBar bar(terminal.fd(), clock);
  const LoadingState state = {.done_bytes = 4e9, .total_bytes = 10e9};
  bar.Show(state);
  clock.now += 2;
  bar.Show(state);
  terminal.Read();

  bar.Clear();
  EXPECT_EQ(terminal.Read(), "\r\x1b[K");
  bar.Show(state);
  EXPECT_THAT(terminal.Read(), HasSubstr("loading  40%"));
}

TEST(ProgressBar, IsSilentWhereThereIsNoTerminal) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  ManualClock clock;
  ProgressBar bar(ends[1], clock);
  bar.Show({.done_bytes = 0, .total_bytes = 10e9});
  clock.now += 2;

  bar.Show({.done_bytes = 4e9, .total_bytes = 10e9});
  bar.Clear();

  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), -1);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace phalanx
