#include "worker/collective/stream_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace phalanx {
namespace {

TEST(StreamCopy, CopiesEveryLengthAndNothingMore) {
  std::vector<char> from(300);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i);
  for (int64_t bytes = 0; bytes < 200; ++bytes) {
    alignas(16) char to[256];
    std::memset(to, -1, sizeof(to));

    StreamCopy(to, from.data() + 1, bytes);  // From anywhere.

    ASSERT_EQ(std::memcmp(to, from.data() + 1, bytes), 0) << bytes;
    ASSERT_EQ(to[bytes], -1) << bytes;
  }
}

}  // namespace
}  // namespace phalanx
