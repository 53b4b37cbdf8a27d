#include "gateway/cli/run_file.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The id of a process that is gone.
pid_t DeadPid() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  return pid;
}

// Each test has a runtime folder of its own.
class RunFileTest : public testing::Test {
 protected:
  RunFileTest() {
    std::string pattern = testing::TempDir() + "/rfXXXXXX";
    folder_ = mkdtemp(pattern.data());
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  }
  ~RunFileTest() override { fs::remove_all(folder_); }

  std::string folder_;
};

TEST_F(RunFileTest, ReadsWhatWasWritten) {
  ASSERT_OK(
      WriteRunFile({"127.0.0.1:1", "127.0.0.1:2", getpid(), "127.0.0.1:3"}));

  const auto run = ReadRunFile();

  ASSERT_OK(run);
  EXPECT_EQ(run->address, "127.0.0.1:1");
  EXPECT_EQ(run->admin_address, "127.0.0.1:2");
  EXPECT_EQ(run->metrics_address, "127.0.0.1:3");
}

TEST_F(RunFileTest, SaysWhatToDoWhereNothingWasServed) {
  EXPECT_THAT(ReadRunFile(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("--address")));
}

TEST_F(RunFileTest, ForgetsAServeThatIsGone) {
  ASSERT_OK(
      WriteRunFile({"127.0.0.1:1", "127.0.0.1:2", DeadPid(), "127.0.0.1:3"}));

  EXPECT_THAT(ReadRunFile(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("serve")));
}

TEST_F(RunFileTest, TakesAFileThatIsNotOursForNone) {
  ASSERT_OK(RuntimeFolder());
  std::ofstream(folder_ + "/phalanx/serve.json") << "[1, \"";

  EXPECT_THAT(ReadRunFile(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("serve")));
}

TEST_F(RunFileTest, LeavesTheFileOfAnotherServe) {
  ASSERT_OK(
      WriteRunFile({"127.0.0.1:1", "127.0.0.1:2", getppid(), "127.0.0.1:3"}));

  RemoveRunFile();

  EXPECT_OK(ReadRunFile());
}

TEST_F(RunFileTest, RemovesItsOwnFile) {
  ASSERT_OK(
      WriteRunFile({"127.0.0.1:1", "127.0.0.1:2", getpid(), "127.0.0.1:3"}));

  RemoveRunFile();

  EXPECT_FALSE(fs::exists(folder_ + "/phalanx/serve.json"));
}

TEST_F(RunFileTest, KeepsItsFolderFromOtherUsers) {
  mkdir((folder_ + "/phalanx").c_str(), 0777);

  const auto folder = RuntimeFolder();

  ASSERT_OK(folder);
  EXPECT_EQ(fs::status(*folder).permissions(), fs::perms::owner_all);
}

TEST_F(RunFileTest, RefusesALinkForAFolder) {
  fs::create_directory_symlink("/", folder_ + "/phalanx");

  EXPECT_THAT(RuntimeFolder(), StatusIs(absl::StatusCode::kPermissionDenied,
                                        HasSubstr("folder of this user")));
}

TEST_F(RunFileTest, UsesTheTemporaryFolderWhereTheRuntimeFolderIsMissing) {
  setenv("XDG_RUNTIME_DIR", (folder_ + "/missing").c_str(), 1);
  setenv("TMPDIR", folder_.c_str(), 1);

  const auto folder = RuntimeFolder();

  unsetenv("TMPDIR");
  ASSERT_OK(folder);
  EXPECT_EQ(*folder, absl::StrCat(folder_, "/phalanx-", getuid()));
}

TEST_F(RunFileTest, DrawsAKeyOnceForThisUserAlone) {
  const auto path = ResumeKeyFile();
  ASSERT_OK(path);
  const auto read = [&] {
    std::ifstream file(*path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string bytes = read();

  EXPECT_EQ(bytes.size(), 32u);
  EXPECT_EQ(ResumeKeyFile(), path);
  EXPECT_EQ(read(), bytes);
  struct stat info;
  ASSERT_EQ(stat(path->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // Nothing but the key is left.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ + "/phalanx"), {}), 1);
}

TEST_F(RunFileTest, DrawsAnotherKeyElsewhere) {
  ASSERT_OK(ResumeKeyFile());
  const fs::path first = folder_ + "/first.key";
  fs::rename(folder_ + "/phalanx/resume.key", first);
  ASSERT_OK(ResumeKeyFile());
  const auto read = [](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };

  EXPECT_NE(read(first), read(folder_ + "/phalanx/resume.key"));
}

TEST_F(RunFileTest, SweepsTheSocketFoldersOfTheDead) {
  ASSERT_OK(RuntimeFolder());
  const std::string old = absl::StrCat(folder_, "/phalanx/serve-", DeadPid());
  fs::create_directory(old);

  ASSERT_OK(MakeSocketFolder());

  EXPECT_FALSE(fs::exists(old));
}

TEST_F(RunFileTest, LeavesTheSocketFoldersOfTheLiving) {
  ASSERT_OK(RuntimeFolder());
  const std::string other = absl::StrCat(folder_, "/phalanx/serve-", getppid());
  fs::create_directory(other);

  ASSERT_OK(MakeSocketFolder());

  EXPECT_TRUE(fs::exists(other));
}

TEST_F(RunFileTest, TakesOverTheSocketFolderOfADeadNamesake) {
  ASSERT_OK(MakeSocketFolder());

  EXPECT_OK(MakeSocketFolder());
}

TEST_F(RunFileTest, RefusesAFolderInWhichNoSocketFits) {
  const std::string deep = folder_ + "/" + std::string(100, 'd');
  fs::create_directory(deep);
  setenv("XDG_RUNTIME_DIR", deep.c_str(), 1);

  EXPECT_THAT(MakeSocketFolder(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("at most 95")));
}

}  // namespace
}  // namespace phalanx
