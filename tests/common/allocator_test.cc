#include "common/allocator.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace phalanx {
namespace {

// As the C library tells it.
unsigned CountArenas() {
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  malloc_info(0, stream);
  std::fclose(stream);
  const std::string info(text, size);
  std::free(text);
  unsigned count = 0;
  for (size_t at = 0; (at = info.find("<heap nr=", at)) != std::string::npos;
       ++at)
    ++count;
  return count;
}

TEST(Allocator, HasNoMoreArenasThanProcessorsHoweverManyThreads) {
  LimitAllocatorArenas();
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  const auto count = static_cast<std::ptrdiff_t>(4 * processors);
  std::barrier all_have_allocated(count);

  std::vector<std::thread> threads;
  for (std::ptrdiff_t i = 0; i < count; ++i)
    threads.emplace_back([&] {
      const auto memory = std::make_unique<std::vector<char>>(100, 'x');
      all_have_allocated.arrive_and_wait();
    });
  for (std::thread& thread : threads) thread.join();

  EXPECT_LE(CountArenas(), processors);
}

}  // namespace
}  // namespace phalanx
