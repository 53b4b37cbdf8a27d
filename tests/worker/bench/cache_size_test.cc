#include "worker/bench/cache_size.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace phalanx {
namespace {

// A folder as sysfs has it, gone with the test.
class CacheSize : public testing::Test {
 protected:
  CacheSize() {
    char name[] = "/tmp/phalanx-cache-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~CacheSize() override { std::filesystem::remove_all(root_); }

  void AddCache(const std::string& index, const std::string& size) {
    const std::string folder = root_ + "/" + index;
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/size") << size << "\n";
  }

  std::string root_;
};

TEST_F(CacheSize, IsThatOfTheLargestCache) {
  AddCache("index0", "32K");
  AddCache("index1", "32768K");
  AddCache("index2", "1024K");

  EXPECT_EQ(LargestCacheBytes(root_), int64_t{32} << 20);
}

TEST_F(CacheSize, MayBeInMebibytes) {
  AddCache("index0", "96M");

  EXPECT_EQ(LargestCacheBytes(root_), int64_t{96} << 20);
}

TEST_F(CacheSize, IsZeroWhereNoneIsListed) {
  EXPECT_EQ(LargestCacheBytes(root_), 0);
}

}  // namespace
}  // namespace phalanx
