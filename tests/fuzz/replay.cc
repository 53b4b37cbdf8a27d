// Every case of a folder, once, in the order of their names: what stands in for
// libFuzzer where there is none.
//   tests_fuzz_<name>_test FOLDER

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    cases.push_back(entry.path());
  std::sort(cases.begin(), cases.end());
  for (const auto& path : cases) {
    // Before the call, so that the last name is the one that ended us.
    std::printf("%s\n", path.filename().c_str());
    std::fflush(stdout);
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (!file.is_open()) return 1;
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                           bytes.size());
  }
  std::printf("%zu cases\n", cases.size());
  return cases.empty() ? 1 : 0;
}
