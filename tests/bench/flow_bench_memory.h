#ifndef PHALANX_TESTS_BENCH_FLOW_BENCH_MEMORY_H_
#define PHALANX_TESTS_BENCH_FLOW_BENCH_MEMORY_H_

// A backend, memory of its own for tensors, and what the machine can do.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor.h"

namespace phalanx {

// No cache holds as much.
inline constexpr int64_t kBankBytes = int64_t{512} << 20;

// What `body` takes by the clock.
double Seconds(const std::function<void()>& body);

// What all threads do together in a second.
struct Limits {
  double read;    // Bytes from memory.
  double update;  // Bytes in and out of memory, in place, both counted.
  double cached;  // The same in L2.
  double fma, bf16_dot, int8_dot;  // Operations, two a multiply-add.
};

// Exits with 1 and a message where there is not enough of it. One thread.
class Memory {
 public:
  explicit Memory(int threads);

  Ops& ops() { return backend_->ops(); }
  const Backend& backend() const { return *backend_; }

  // A tensor of numbers of order 1, which lives as long as this.
  template <typename... Dims>
  Tensor Make(DType type, Dims... dims) {
    Tensor t = MakeTensor(nullptr, type, dims...);
    t.data = Room(t.elements() * ElementBytes(type));
    Fill(t);
    return t;
  }

  Tensor Ints(const std::vector<int32_t>& values);

  // Takes a tenth of a second or so.
  Limits Measure();

 private:
  void* Room(int64_t bytes);
  static void Fill(const Tensor& t);
  double Rate(const std::function<void(char*, int64_t)>& touch, double passes,
              int64_t parts);
  double Peak(double (*flops)());

  ThreadPool pool_;
  std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
  void* bank_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_FLOW_BENCH_MEMORY_H_
