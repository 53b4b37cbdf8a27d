#include "worker/bench/cache_size.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

// "32768K", "1M".
int64_t ParseSize(const std::string& text) {
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (*end == 'K') return value << 10;
  if (*end == 'M') return value << 20;
  return value;
}

}  // namespace

int64_t LargestCacheBytes(const std::string& root) {
  int64_t largest = 0;
  for (int i = 0;; ++i) {
    std::ifstream file(absl::StrCat(root, "/index", i, "/size"));
    std::string text;
    if (!(file >> text)) return largest;
    largest = std::max(largest, ParseSize(text));
  }
}

}  // namespace phalanx
