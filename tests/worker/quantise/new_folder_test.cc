#include "worker/quantise/new_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/worker/checkpoint/checkpoint_files.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(NewFolder, HasItsNameOnlyWhenItIsCommitted) {
  const TempFolder folder;
  const std::string path = folder.path() + "/new";
  const auto made = NewFolder::Create(path);
  ASSERT_OK(made);
  folder.Write(".new.unfinished/file", "bytes");

  EXPECT_FALSE(fs::exists(path));
  EXPECT_OK((*made)->Commit());
  EXPECT_EQ(ReadBytes(path + "/file"), "bytes");
}

TEST(NewFolder, IsMadeByOneAtATime) {
  const TempFolder folder;
  const auto made = NewFolder::Create(folder.path() + "/new");

  EXPECT_THAT(NewFolder::Create(folder.path() + "/new"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("another process is making")));
  EXPECT_OK(made);
}

// Else a stranger's link in a shared folder would empty what it leads to.
TEST(NewFolder, EmptiesNothingThroughALink) {
  const TempFolder folder;
  fs::create_directory(folder.path() + "/theirs");
  folder.Write("theirs/file", "bytes");
  fs::create_directory_symlink("theirs", folder.path() + "/.new.unfinished");

  EXPECT_THAT(NewFolder::Create(folder.path() + "/new"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("/.new.unfinished")));
  EXPECT_EQ(ReadBytes(folder.path() + "/theirs/file"), "bytes");
}

TEST(NewFolder, GetsNoNameWhileAFileCannotBeFlushed) {
  const TempFolder folder;
  const auto made = NewFolder::Create(folder.path() + "/new");
  ASSERT_OK(made);
  fs::create_symlink("nowhere", (*made)->temporary() + "/config.json");

  EXPECT_THAT((*made)->Commit(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("cannot flush")));
  EXPECT_FALSE(fs::exists(folder.path() + "/new"));
}

}  // namespace
}  // namespace phalanx
