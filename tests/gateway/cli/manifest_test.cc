#include "gateway/cli/manifest.h"

#include <ostream>

#include "tests/gateway/cli/temporary_folder.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::string kA(64, 'a');
const std::string kB(64, 'b');

TEST(Manifest, IsWrittenAsSha256sumWritesIt) {
  EXPECT_EQ(FormatManifest({{"b", kB}, {"a/c", kA}}),
            kA + "  a/c\n" + kB + "  b\n");
}

TEST(Manifest, KeepsNamesWithLineEnds) {
  const Manifest manifest = {{"a\nb\\nc\r", kA}};

  const std::string text = FormatManifest(manifest);

  EXPECT_EQ(text, "\\" + kA + "  a\\nb\\\\nc\\r\n");
  EXPECT_EQ(*ParseManifest(text, "m"), manifest);
}

TEST(Manifest, IsReadInEitherModeOfSha256sum) {
  const auto manifest = ParseManifest(kA + "  a\n" + kB + " *b c\n", "m");

  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_THAT(*manifest, ElementsAre(Pair("a", kA), Pair("b c", kB)));
}

TEST(Manifest, IsReadWithForeignLineEndsAndCapitals) {
  const auto manifest =
      ParseManifest(std::string(64, 'A') + "  ./a\r\n\r\n", "m");

  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_THAT(*manifest, ElementsAre(Pair("a", kA)));
}

struct Refused {
  std::string text;
  std::string says;
};

void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.text;
}

class RefusedManifest : public testing::TestWithParam<Refused> {};

TEST_P(RefusedManifest, IsNamedWithItsLine) {
  const auto manifest = ParseManifest(GetParam().text, "m");

  EXPECT_TRUE(absl::IsInvalidArgument(manifest.status()));
  EXPECT_THAT(std::string(manifest.status().message()),
              HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Manifest, RefusedManifest,
    testing::Values(
        Refused{"", "m names no file"}, Refused{"\n\n", "m names no file"},
        Refused{"hello", "m line 1: must be 64 hexadecimal digits"},
        Refused{kA + "  a\n" + std::string(63, 'a') + "   b", "m line 2: must"},
        Refused{std::string(64, 'g') + "  a", "m line 1: must"},
        Refused{kA + " a", "m line 1: must"},
        Refused{kA + "  ", "m line 1: must"},
        Refused{kA + "  a\n" + kB + "  ./a", "m line 2: names a once more"},
        Refused{kA + "  /etc/passwd", "names /etc/passwd, which is no file"},
        Refused{kA + "  a/../../b", "which is no file of the folder"},
        Refused{kA + "  ..", "which is no file of the folder"},
        Refused{kA + "  a/", "which is no file of the folder"}));

TEST(Manifest, IsReadBackFromItsFile) {
  const TemporaryFolder folder;
  const Manifest manifest = {{"a", kA}};

  const absl::Status written = WriteManifest(manifest, folder.path("SUMS"));

  EXPECT_TRUE(written.ok()) << written;
  EXPECT_EQ(*ReadManifest(folder.path("SUMS")), manifest);
  EXPECT_THAT(folder.Names(), ElementsAre("SUMS"));
}

TEST(Manifest, ThatIsThereIsNotReplaced) {
  const TemporaryFolder folder;
  folder.Write("SUMS", kA + "  a\n");

  const absl::Status written = WriteManifest({{"b", kB}}, folder.path("SUMS"));

  EXPECT_TRUE(absl::IsAlreadyExists(written)) << written;
  EXPECT_THAT(*ReadManifest(folder.path("SUMS")), ElementsAre(Pair("a", kA)));
}

TEST(Manifest, ThatIsNotThereIsNamedWithWhatToDo) {
  const auto manifest = ReadManifest("/nowhere/SHA256SUMS");

  EXPECT_TRUE(absl::IsNotFound(manifest.status()));
  EXPECT_THAT(std::string(manifest.status().message()),
              HasSubstr("/nowhere/SHA256SUMS is not there; give --manifest"));
}

TEST(Manifest, ThatCannotBeWrittenIsNamed) {
  const absl::Status written = WriteManifest({{"a", kA}}, "/proc/SUMS");

  EXPECT_TRUE(absl::IsPermissionDenied(written));
  EXPECT_THAT(std::string(written.message()),
              HasSubstr("/proc/SUMS cannot be written"));
}

}  // namespace
}  // namespace phalanx
