#ifndef PHALANX_TESTS_KERNELS_RIG_H_
#define PHALANX_TESTS_KERNELS_RIG_H_

// A backend under test and the memory that one case uses on it.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/backend.h"

namespace phalanx {

using Dims = std::vector<int64_t>;
using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

// A number in [-1, 1) that bf16 holds exactly, the same on every machine.
float NoiseAt(uint64_t seed, uint64_t index);
Floats Noise(uint64_t seed, int64_t count);

float RoundToBf16(float value);

// Tensors live until the rig dies. With gap > 0 every matrix is a block of
// columns inside a wider one whose other elements are NaN, so an op that
// mistakes width for stride shows.
class Rig {
 public:
  explicit Rig(std::unique_ptr<Backend> backend, int64_t gap = 0);

  Backend& backend() { return *backend_; }
  Ops& ops() { return backend_->ops(); }
  DType act() const { return backend_->activation_dtype(); }
  bool rounds() const { return act() == DType::kBf16; }

  // Filled with `values`, or with NaN if there are none: an output.
  Tensor Act(const Dims& dims, const Floats& values = {});
  Tensor F32(const Dims& dims, const Floats& values = {});
  // Never with a gap.
  Tensor Bf16(const Dims& dims, const Floats& values);
  Tensor Param(const Dims& dims, const Floats& values = {});  // f32
  Tensor I32(const Dims& dims, const Ints& values);
  Tensor Places(const Dims& dims);  // i32, filled with -1: an output.

  // values [count, rows, cols]
  const PackedWeight& Weight(int64_t count, int64_t rows, int64_t cols,
                             const Floats& values,
                             WeightLayout layout = WeightLayout::kPlain,
                             WeightFormat format = WeightFormat::kBf16,
                             int slices = 1);

  // Room for what Route decides.
  Routing NewRouting(int64_t T, int64_t E, int64_t K);

  // After Synchronize; row-major without gaps.
  Floats Read(const Tensor& tensor);
  Ints ReadInts(const Tensor& tensor);

  // Whether every element between rows still is what it was.
  bool GapsUntouched();

 private:
  // A matrix with its gaps, contiguous, and where in a row the gap begins.
  struct Padded {
    Tensor whole;
    int64_t width = 0;
  };

  Tensor Make(DType dtype, const Dims& dims, const Floats& values, int64_t gap);
  Floats Download(const Tensor& whole);

  std::unique_ptr<Backend> backend_;
  const int64_t gap_;
  std::vector<Buffer> buffers_;  // These die before backend_.
  std::vector<std::unique_ptr<PackedWeight>> weights_;
  std::vector<Padded> padded_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_KERNELS_RIG_H_
