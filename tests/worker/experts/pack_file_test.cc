#include "worker/experts/pack_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

PackKey SomeKey() {
  return {.model_digest = std::string(64, 'a'),
          .packed_layout = "tiles32-1",
          .parts = 2,
          .layers = 3,
          .experts = 4,
          .gate_up = {.rows = 6, .cols = 10, .matrix_bytes = 100},
          .down = {.rows = 10, .cols = 3, .matrix_bytes = 64}};
}

// What the test's experts are made of: another byte for each matrix.
char ByteOf(int layer, int expert, int64_t part, bool down) {
  return static_cast<char>(1 + ((layer * 4 + expert) * 2 + part) * 2 + down);
}

void PackBytes(int layer, int expert, std::span<std::byte> out) {
  const PackKey key = SomeKey();
  char* at = reinterpret_cast<char*>(out.data());
  for (int64_t part = 0; part < key.parts; ++part, at += key.part_bytes()) {
    std::memset(at, ByteOf(layer, expert, part, false), 100);
    std::memset(at + 128, ByteOf(layer, expert, part, true), 64);
  }
}

bool IsFilledWith(const std::byte* data, int64_t bytes, char value) {
  for (int64_t i = 0; i < bytes; ++i)
    if (static_cast<char>(data[i]) != value) return false;
  return true;
}

// True if all matrices of the file are right.
bool IsRight(const PackFile& file) {
  const PackKey key = SomeKey();
  for (int layer = 0; layer < key.layers; ++layer)
    for (int e = 0; e < key.experts; ++e)
      for (int64_t part = 0; part < key.parts; ++part)
        if (!IsFilledWith(file.gate_up(layer, e, part), 100,
                          ByteOf(layer, e, part, false)) ||
            !IsFilledWith(file.down(layer, e, part), 64,
                          ByteOf(layer, e, part, true)))
          return false;
  return true;
}

class PackFileTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<PackFile>> OpenOrMake(int threads = 1) {
    return PackFile::OpenOrMake(
        folder_.path(), SomeKey(), threads,
        [this](int, int layer, int expert, std::span<std::byte> out) {
          ++packed_;
          PackBytes(layer, expert, out);
        });
  }

  std::string path() const {
    return folder_.path() + "/" + SomeKey().file_name();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    return names;
  }
  // Changes one byte of the file.
  void Damage(int64_t offset) const {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file.put('~');
  }

  TempFolder folder_;
  std::atomic<int> packed_{0};
};

TEST_F(PackFileTest, HoldsEachMatrixOfEachPart) {
  const auto file = OpenOrMake();

  ASSERT_OK(file);
  EXPECT_EQ((*file)->bytes(), SomeKey().file_bytes());
  EXPECT_TRUE(IsRight(**file));
}

TEST_F(PackFileTest, IsTheSameFromSeveralThreads) {
  const auto file = OpenOrMake(/*threads=*/4);

  ASSERT_OK(file);
  EXPECT_TRUE(IsRight(**file));
  EXPECT_EQ(packed_, 12);
}

TEST_F(PackFileTest, LeavesNoTemporary) {
  ASSERT_OK(OpenOrMake());

  const std::string name = SomeKey().file_name();
  EXPECT_THAT(Names(), UnorderedElementsAre(name, name + ".lock"));
}

TEST_F(PackFileTest, IsMadeOnce) {
  ASSERT_OK(OpenOrMake());

  const auto file = OpenOrMake();

  ASSERT_OK(file);
  EXPECT_TRUE(IsRight(**file));
  EXPECT_EQ(packed_, 12);
}

TEST_F(PackFileTest, HasAFileForEachKey) {
  ASSERT_OK(OpenOrMake());
  PackKey other = SomeKey();
  other.parts = 1;

  const auto file = PackFile::OpenOrMake(
      folder_.path(), other, 1, [](int, int, int, std::span<std::byte>) {});

  ASSERT_OK(file);
  ASSERT_OK(OpenOrMake());
  EXPECT_EQ(packed_, 12);
}

TEST_F(PackFileTest, IsMadeOnceByThreadsThatAskTogether) {
  Mutex mutex;
  CondVar changed;
  bool begun = false;
  std::thread other([&] {
    {
      MutexLock lock(mutex);
      changed.Wait(mutex, [&] { return begun; });
    }
    EXPECT_OK(OpenOrMake());  // While the first is at work.
  });

  const auto file = PackFile::OpenOrMake(
      folder_.path(), SomeKey(), 1,
      [&](int, int layer, int expert, std::span<std::byte> out) {
        {
          MutexLock lock(mutex);
          begun = true;
        }
        changed.SignalAll();
        PackBytes(layer, expert, out);
      });
  other.join();

  ASSERT_OK(file);
  EXPECT_EQ(packed_, 0);
}

TEST_F(PackFileTest, IsMadeOnceByProcessesThatAskTogether) {
  auto* const packed = static_cast<std::atomic<int>*>(
      mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const auto file = PackFile::OpenOrMake(
          folder_.path(), SomeKey(), 1,
          [&](int, int layer, int expert, std::span<std::byte> out) {
            ++*packed;
            PackBytes(layer, expert, out);
          });
      _exit(file.ok() && IsRight(**file) ? 0 : 1);
    }
    children.push_back(child);
  }

  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(packed->load(), 12);
  munmap(packed, sizeof(*packed));
}

TEST_F(PackFileTest, AMakerThatWasKilledLeavesNothingThatCounts) {
  const pid_t child = fork();
  if (child == 0) {
    (void)PackFile::OpenOrMake(
        folder_.path(), SomeKey(), 1,
        [](int, int layer, int, std::span<std::byte> out) {
          std::memset(out.data(), 0xff, out.size());
          if (layer == 1) raise(SIGKILL);
        });
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(std::filesystem::exists(path() + ".tmp"));
  ASSERT_FALSE(std::filesystem::exists(path()));

  const auto file = OpenOrMake();

  ASSERT_OK(file);
  EXPECT_TRUE(IsRight(**file));
  EXPECT_FALSE(std::filesystem::exists(path() + ".tmp"));
}

TEST_F(PackFileTest, ADamagedHeaderIsMadeAgainAndSaidSo) {
  ASSERT_OK(OpenOrMake());
  Damage(40);
  testing::internal::CaptureStderr();

  const auto file = OpenOrMake();

  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_OK(file);
  EXPECT_TRUE(IsRight(**file));
  EXPECT_EQ(packed_, 24);
  EXPECT_THAT(log,
              AllOf(HasSubstr("pack file is made again"),
                    HasSubstr("its header is damaged"), HasSubstr(path())));
}

TEST_F(PackFileTest, AFileThatIsTooShortIsMadeAgain) {
  ASSERT_OK(OpenOrMake());
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1);

  const auto file = OpenOrMake();

  ASSERT_OK(file);
  EXPECT_TRUE(IsRight(**file));
}

TEST_F(PackFileTest, MakesItsFolder) {
  const auto file = PackFile::OpenOrMake(
      folder_.path() + "/a/b", SomeKey(), 1,
      [](int, int layer, int expert, std::span<std::byte> out) {
        PackBytes(layer, expert, out);
      });

  ASSERT_OK(file);
  EXPECT_TRUE(IsRight(**file));
}

TEST_F(PackFileTest, SaysWhatADiskThatIsTooSmallLacks) {
  PackKey large = SomeKey();
  large.gate_up.matrix_bytes = int64_t{1} << 50;

  const auto file = PackFile::OpenOrMake(
      folder_.path(), large, 1, [](int, int, int, std::span<std::byte>) {});

  EXPECT_THAT(file,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr(folder_.path() + "/aaaaaaaaaaaaaaaa-"),
                             HasSubstr(std::to_string(large.file_bytes())),
                             HasSubstr("bytes; free on its disk are "))));
  const std::string name = large.file_name();
  EXPECT_THAT(Names(), ElementsAre(name + ".lock"));
}

TEST_F(PackFileTest, SaysWhichFolderCannotBeMade) {
  folder_.Write("file", "");

  const auto file =
      PackFile::OpenOrMake(folder_.path() + "/file/dir", SomeKey(), 1,
                           [](int, int, int, std::span<std::byte>) {});

  EXPECT_THAT(file, StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr(folder_.path() + "/file/dir")));
}

// In a process of its own: it takes the right to write long files away.
TEST_F(PackFileTest, AWriteThatFailsNamesTheFileAndLeavesNone) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 6000, .rlim_max = 6000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto file = OpenOrMake();
    const std::string message(file.status().message());
    _exit(absl::IsFailedPrecondition(file.status()) &&
                  message.find(path() + ".tmp (8704 bytes): File too large") !=
                      std::string::npos
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);

  EXPECT_EQ(status, 0);
  const std::string name = SomeKey().file_name();
  EXPECT_THAT(Names(), ElementsAre(name + ".lock"));
}

}  // namespace
}  // namespace phalanx
