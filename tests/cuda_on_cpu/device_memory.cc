#include "tests/cuda_on_cpu/device_memory.h"

#include <sys/mman.h>

#include <cstring>

#include "common/check.h"
#include "tests/cuda_on_cpu/poison.h"

namespace phalanx::cuda_on_cpu {
namespace {

constexpr size_t kAlignment = 256;
// Behind each allocation.
constexpr size_t kGap = 256;

char* Reserve() {
  void* mapped = mmap(nullptr, DeviceMemory::kBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(mapped != MAP_FAILED);
  PoisonMemory(mapped, DeviceMemory::kBytes);
  return static_cast<char*>(mapped);
}

}  // namespace

DeviceMemory& DeviceMemory::The() {
  static DeviceMemory memory;
  return memory;
}

DeviceMemory::DeviceMemory() : begin_(Reserve()) {}

void* DeviceMemory::Allocate(size_t bytes) {
  if (bytes > kBytes) return nullptr;
  const size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment + kGap;
  size_t offset = 0;
  for (const auto& [begin, taken] : allocations_) {
    if (begin - offset >= room) break;
    offset = begin + taken;
  }
  if (offset + room > kBytes) return nullptr;
  allocations_[offset] = room;
  used_ += room;
  void* data = begin_ + offset;
  UnpoisonMemory(data, bytes);
  const Open open;
  std::memset(data, 0xff, bytes);
  return data;
}

bool DeviceMemory::Free(void* data) {
  const auto found = allocations_.find(static_cast<char*>(data) - begin_);
  if (found == allocations_.end()) return false;
  PoisonMemory(data, found->second);
  used_ -= found->second;
  allocations_.erase(found);
  return true;
}

DeviceMemory::Open::Open() {
  DeviceMemory& memory = The();
  if (memory.open_++ == 0)
    CHECK(mprotect(memory.begin_, kBytes, PROT_READ | PROT_WRITE) == 0);
}

DeviceMemory::Open::~Open() {
  DeviceMemory& memory = The();
  if (--memory.open_ == 0)
    CHECK(mprotect(memory.begin_, kBytes, PROT_NONE) == 0);
}

}  // namespace phalanx::cuda_on_cpu
