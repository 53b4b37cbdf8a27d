#ifndef PHALANX_KERNELS_BUFFER_H_
#define PHALANX_KERNELS_BUFFER_H_

#include <cstdint>
#include <functional>
#include <utility>

namespace phalanx {

// Owns one piece of a backend's memory; gives it back when it dies. Made by
// Backend::Allocate; must die before the backend does. Move only.
class Buffer {
 public:
  using Release = std::function<void(void* data, int64_t bytes)>;

  Buffer() = default;
  Buffer(void* data, int64_t bytes, Release release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) release_(data_, bytes_);
  }

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  Release release_;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_BUFFER_H_
