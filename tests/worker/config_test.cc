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
      Parse({"--model", "m", "--rank", "1", "--tp-size", "2", "--leader",
             "unix:l", "--listen", "unix:f", "--max-running", "3",
             "--kv-blocks", "9", "--epoch-floor", "12"});
  EXPECT_EQ(parsed.code, -1) << parsed.said;
  EXPECT_EQ(parsed.config.model_dir, "m");
  EXPECT_EQ(parsed.config.rank, 1);
  EXPECT_EQ(parsed.config.tp_size, 2);
  EXPECT_EQ(parsed.config.leader, "unix:l");
  EXPECT_EQ(parsed.config.max_running, 3);
  EXPECT_EQ(parsed.config.kv_blocks, 9);
  EXPECT_EQ(parsed.config.epoch_floor, 12u);
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
