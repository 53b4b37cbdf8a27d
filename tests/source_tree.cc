#include "tests/source_tree.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <utility>

namespace phalanx {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kTopFolders = {
    "common", "proto", "gateway", "worker", "kernels", "deploy", "tests"};
const std::set<std::string> kExtensions = {
    ".h", ".cc", ".cuh", ".cu", ".proto", ".py", ".sh", ".md", ".txt"};
// Data, and what programs leave behind.
const std::set<std::string> kSkippedFolders = {"golden", "models",
                                               "__pycache__"};

}  // namespace

SourceTree ReadSourceTree() {
  SourceTree tree;
  const fs::path root(SOURCE_ROOT);
  for (const std::string& top : kTopFolders) {
    fs::recursive_directory_iterator it(root / top);
    for (; it != fs::recursive_directory_iterator(); ++it) {
      if (it->is_directory() &&
          kSkippedFolders.contains(it->path().filename().string()))
        it.disable_recursion_pending();
      if (!it->is_regular_file()) continue;
      if (!kExtensions.contains(it->path().extension().string())) continue;
      std::ifstream file(it->path());
      std::vector<std::string>& lines =
          tree[it->path().lexically_relative(root).string()];
      for (std::string line; std::getline(file, line);)
        lines.push_back(std::move(line));
    }
  }
  return tree;
}

std::string FolderOf(const std::string& path) {
  return fs::path(path).parent_path().string();
}

std::string ExtensionOf(const std::string& path) {
  return fs::path(path).extension().string();
}

std::string StemOf(const std::string& path) {
  return fs::path(path).stem().string();
}

bool IsCpp(const std::string& path) { return IsHeader(path) || IsSource(path); }

bool IsHeader(const std::string& path) {
  return ExtensionOf(path) == ".h" || ExtensionOf(path) == ".cuh";
}

bool IsSource(const std::string& path) {
  return ExtensionOf(path) == ".cc" || ExtensionOf(path) == ".cu";
}

bool IsCuda(const std::string& path) {
  return ExtensionOf(path) == ".cu" || ExtensionOf(path) == ".cuh";
}

std::string IncludedBy(const std::string& line) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*"([^"]+)")re");
  std::smatch match;
  return std::regex_search(line, match, kInclude) ? match[1].str() : "";
}

}  // namespace phalanx
