#include "gateway/cli/model_files.h"

#include <filesystem>

#include "tests/gateway/cli/program.h"
#include "tests/gateway/cli/temporary_folder.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Of the standard that defines SHA-256.
constexpr char kOfAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kOfNothing[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

void Unwatched(const ReadProgress&) {}

absl::StatusOr<FilesReport> Check(const TemporaryFolder& folder) {
  return CheckFiles(folder.root(), folder.path(kManifestName), Unwatched);
}

// Two files, one of them below, and a manifest that is right.
class ModelFolder : public testing::Test {
 protected:
  ModelFolder() {
    folder_.Write("config.json", "abc");
    folder_.Write("parts/model.safetensors", "");
    folder_.Write(kManifestName, std::string(kOfAbc) + "  config.json\n" +
                                     kOfNothing +
                                     "  parts/model.safetensors\n");
  }

  FilesReport CheckIt() {
    auto report = Check(folder_);
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }

  const TemporaryFolder folder_;
};

TEST_F(ModelFolder, IsRightAsItsManifestSays) {
  const FilesReport report = CheckIt();

  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.files, 2u);
  EXPECT_EQ(report.read.done_bytes, 3);
  EXPECT_EQ(report.read.total_bytes, 3);
}

TEST_F(ModelFolder, NamesAFileThatDiffersInOneBit) {
  folder_.Write("config.json", "abb");

  const FilesReport report = CheckIt();

  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.differs, ElementsAre("config.json"));
}

TEST_F(ModelFolder, IsComparedToTheLastDigit) {
  std::string digest = kOfAbc;
  digest.back() = 'e';
  folder_.Write(kManifestName, digest + "  config.json\n" + kOfNothing +
                                   "  parts/model.safetensors\n");

  EXPECT_THAT(CheckIt().differs, ElementsAre("config.json"));
}

TEST_F(ModelFolder, NamesEveryFileThatIsMissing) {
  fs::remove_all(folder_.path("parts"));
  fs::remove(folder_.path("config.json"));

  const FilesReport report = CheckIt();

  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.missing,
              ElementsAre("config.json", "parts/model.safetensors"));
}

TEST_F(ModelFolder, NamesEveryFileThatIsExtra) {
  folder_.Write("parts/b", "");
  folder_.Write("a", "");

  const FilesReport report = CheckIt();

  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.extra, ElementsAre("a", "parts/b"));
}

TEST_F(ModelFolder, NamesAFileThatCannotBeRead) {
  fs::remove(folder_.path("config.json"));
  fs::create_symlink("/proc/self/mem", folder_.path("config.json"));

  const FilesReport report = CheckIt();

  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.unreadable,
              ElementsAre("config.json: cannot be read: Input/output error"));
}

TEST_F(ModelFolder, NamesAFolderWhereAFileShouldBe) {
  fs::remove(folder_.path("config.json"));
  fs::create_directory(folder_.path("config.json"));

  EXPECT_THAT(CheckIt().missing, ElementsAre("config.json"));
}

TEST_F(ModelFolder, DoesNotMindWhatADownloadNotesForItself) {
  folder_.Write(".cache/download/a.lock", "");
  folder_.Write(".gitattributes", "");

  EXPECT_TRUE(CheckIt().ok());
}

TEST_F(ModelFolder, ReadsFilesThroughLinks) {
  fs::rename(folder_.path("config.json"), folder_.path(".blob"));
  fs::create_symlink(".blob", folder_.path("config.json"));

  EXPECT_TRUE(CheckIt().ok());
}

TEST_F(ModelFolder, IsHeldAgainstAManifestElsewhere) {
  const TemporaryFolder elsewhere;
  fs::rename(folder_.path(kManifestName), elsewhere.path("sums"));

  const auto report =
      CheckFiles(folder_.root(), elsewhere.path("sums"), Unwatched);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok());
}

TEST_F(ModelFolder, HasNoManifestMadeOverTheOneThatIsThere) {
  const auto made =
      MakeManifest(folder_.root(), folder_.path(kManifestName), Unwatched);

  EXPECT_TRUE(absl::IsAlreadyExists(made.status())) << made.status();
}

TEST(MakeManifest, AgreesWithSha256sum) {
  const TemporaryFolder folder;
  // Longer than one read, and not a whole number of them.
  std::string large((size_t{3} << 20) + 17, '\0');
  for (size_t i = 0; i < large.size(); ++i)
    large[i] = static_cast<char>(i * 2654435761u >> 13);
  for (int i = 0; i < 40; ++i)
    folder.Write(absl::StrCat("part", i), large + absl::StrCat(i));
  folder.Write("a b\nc\\d", "abc");

  const auto made =
      MakeManifest(folder.root(), folder.path(kManifestName), Unwatched);

  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->files, 41u);
  const Outcome theirs =
      RunShell("cd " + folder.root() +
               " && sha256sum --check --strict --quiet SHA256SUMS");
  EXPECT_EQ(theirs.code, 0) << theirs.out << theirs.err;
  EXPECT_TRUE(Check(folder)->ok());
}

TEST(MakeManifest, SaysThatThereIsNoFileOrNoFolder) {
  const TemporaryFolder folder;

  const auto empty =
      MakeManifest(folder.root(), folder.path(kManifestName), Unwatched);
  const auto absent = MakeManifest("/nowhere", "/nowhere/SUMS", Unwatched);

  EXPECT_THAT(std::string(empty.status().message()),
              HasSubstr("there is no file in it"));
  EXPECT_EQ(absent.status().message(), "--model is /nowhere; no such folder");
}

TEST(MakeManifest, NamesAFileThatCannotBeReadAndWritesNothing) {
  const TemporaryFolder folder;
  fs::create_symlink("/proc/self/mem", folder.path("a"));

  const auto made =
      MakeManifest(folder.root(), folder.path(kManifestName), Unwatched);

  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("/a cannot be read: Input/output error"));
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
}

TEST(DigestFiles, TellsHowFarItIs) {
  const TemporaryFolder folder;
  // Sparse, and long enough for a look every tenth of a second.
  folder.Write("a", "");
  fs::resize_file(folder.path("a"), uintmax_t{1} << 30);
  std::vector<int64_t> seen;

  const FileDigests digests =
      DigestFiles(folder.root(), {"a"}, [&](const ReadProgress& progress) {
        EXPECT_EQ(progress.total_bytes, int64_t{1} << 30);
        seen.push_back(progress.done_bytes);
      });

  EXPECT_FALSE(seen.empty());
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_LT(seen.front(), int64_t{1} << 30);
  EXPECT_EQ(digests.read.done_bytes, int64_t{1} << 30);
}

TEST(DigestFiles, OfNothingIsNothing) {
  EXPECT_THAT(DigestFiles("/nowhere", {}, Unwatched).digests, IsEmpty());
}

}  // namespace
}  // namespace phalanx
