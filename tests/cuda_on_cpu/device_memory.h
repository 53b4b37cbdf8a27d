#ifndef PHALANX_TESTS_CUDA_ON_CPU_DEVICE_MEMORY_H_
#define PHALANX_TESTS_CUDA_ON_CPU_DEVICE_MEMORY_H_

// The memory of the card that is not there: a region of its own that only what
// runs on the stream may touch. A host that follows a device pointer dies, as
// it would on a machine with a card; AddressSanitizer knows each allocation's
// ends.

#include <cstddef>
#include <map>

namespace phalanx::cuda_on_cpu {

class DeviceMemory {
 public:
  static constexpr size_t kBytes = 64 << 20;

  static DeviceMemory& The();

  // Filled with NaNs; null where there is no room.
  void* Allocate(size_t bytes);
  // False if `data` was not allocated.
  bool Free(void* data);
  size_t free_bytes() const { return kBytes - used_; }

  // While one lives, memory may be touched.
  class Open {
   public:
    Open();
    ~Open();
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
  };

 private:
  DeviceMemory();

  char* const begin_;
  size_t used_ = 0;
  std::map<size_t, size_t> allocations_;  // Offset -> bytes with the gap.
  int open_ = 0;
};

}  // namespace phalanx::cuda_on_cpu

#endif  // PHALANX_TESTS_CUDA_ON_CPU_DEVICE_MEMORY_H_
