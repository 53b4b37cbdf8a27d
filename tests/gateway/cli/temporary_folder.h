#ifndef PHALANX_TESTS_GATEWAY_CLI_TEMPORARY_FOLDER_H_
#define PHALANX_TESTS_GATEWAY_CLI_TEMPORARY_FOLDER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

namespace phalanx {

// An empty folder that is gone with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() : root_(testing::TempDir() + "/folder-XXXXXX") {
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& root() const { return root_; }
  std::string path(const std::string& name) const {
    return absl::StrCat(root_, "/", name);
  }

  // Makes the folders above it too.
  void Write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(
        std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
  }

  // What is directly in it, sorted.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string root_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_CLI_TEMPORARY_FOLDER_H_
