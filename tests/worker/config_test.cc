#include "worker/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace phalanx {
namespace {

using testing::HasSubstr;

struct Parsed {
  int code = 0;
  WorkerConfig config;
  std::string said;  // On either stream.
};

Parsed Parse(std::vector<std::string> flags) {
  flags.insert(flags.begin(), "phalanx-worker");
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  Parsed parsed;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  parsed.code = ParseWorkerFlags(static_cast<int>(argv.size()), argv.data(),
                                 parsed.config);
  parsed.said = testing::internal::GetCapturedStdout() +
                testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(WorkerConfig, TakesWhatItIsTold) {
  const Parsed parsed =
      Parse({"--model",         "m",       "--rank",          "1",
             "--tp-size",       "2",       "--leader",        "unix:l",
             "--listen",        "unix:f",  "--max-running",   "3",
             "--kv-blocks",     "9",       "--epoch-floor",   "12",
             "--moe-mode",      "offload", "--offload-bank",  "full",
             "--expert-slots",  "40",      "--memory-budget", "4GiB",
             "--pack-cache",    "p",       "--step-timeout",  "2.5",
             "--drain-timeout", "7"});
  EXPECT_EQ(parsed.code, -1) << parsed.said;
  EXPECT_EQ(parsed.config.model_dir, "m");
  EXPECT_EQ(parsed.config.rank, 1);
  EXPECT_EQ(parsed.config.tp_size, 2);
  EXPECT_EQ(parsed.config.leader, "unix:l");
  EXPECT_EQ(parsed.config.max_running, 3);
  EXPECT_EQ(parsed.config.kv_blocks, 9);
  EXPECT_EQ(parsed.config.epoch_floor, 12u);
  EXPECT_EQ(parsed.config.moe_mode, "offload");
  EXPECT_EQ(parsed.config.offload_bank, "full");
  EXPECT_EQ(parsed.config.expert_slots, 40);
  EXPECT_EQ(parsed.config.memory_budget, int64_t{4} << 30);
  EXPECT_EQ(parsed.config.pack_cache, "p");
  EXPECT_EQ(parsed.config.step_timeout_seconds, 2.5);
  EXPECT_EQ(parsed.config.drain_timeout_seconds, 7);
}

TEST(WorkerConfig, ChoosesWhereItIsNotTold) {
  const Parsed parsed = Parse({"--model", "m"});

  EXPECT_EQ(parsed.config.moe_mode, "auto");
  EXPECT_EQ(parsed.config.offload_bank, "sharded");
  EXPECT_EQ(parsed.config.expert_slots, 0);
  EXPECT_EQ(parsed.config.memory_budget, 0);
  EXPECT_EQ(parsed.config.step_timeout_seconds, 10);
  EXPECT_EQ(parsed.config.drain_timeout_seconds, 300);
}

TEST(WorkerConfig, HelpAndVersionAreNoErrors) {
  EXPECT_EQ(Parse({"--help"}).code, 0);
  EXPECT_THAT(Parse({"--help"}).said, HasSubstr("--max-model-len"));
  EXPECT_EQ(Parse({"--version"}).code, 0);
  EXPECT_THAT(Parse({"--version"}).said, HasSubstr("phalanx-worker "));
}

TEST(WorkerConfig, NamesTheFlagThatIsWrong) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--model"},
      {{"--model", "m", "--bogus"}, "--bogus"},
      {{"--model", "m", "--rank", "64"}, "--rank"},
      {{"--model", "m", "--tp-size", "0"}, "--tp-size"},
      {{"--model", "m", "--max-running", "0"}, "--max-running"},
      {{"--model", "m", "--max-waiting", "0"}, "--max-waiting"},
      {{"--model", "m", "--device", "tpu"}, "--device"},
      {{"--model", "m", "--moe-mode", "half"}, "--moe-mode"},
      {{"--model", "m", "--offload-bank", "half"}, "--offload-bank"},
      {{"--model", "m", "--expert-slots", "-1"}, "--expert-slots"},
      {{"--model", "m", "--step-timeout", "0"}, "--step-timeout"},
      {{"--model", "m", "--drain-timeout", "-1"}, "--drain-timeout"},
      {{"--model", "m", "--memory-budget", "4G"}, "the size is \"4G\""},
      {{"--model", "m", "--rank", "2", "--tp-size", "2", "--leader", "l"},
       "2 must be below --tp-size 2"},
      {{"--model", "m", "--rank", "1", "--tp-size", "2"}, "--leader"},
  };
  for (const auto& [flags, name] : cases) {
    const Parsed parsed = Parse(flags);
    EXPECT_GT(parsed.code, 0);
    EXPECT_THAT(parsed.said, HasSubstr(name));
  }
}

}  // namespace
}  // namespace phalanx
