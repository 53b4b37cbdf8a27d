#include "tests/kernels/rig.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "common/check.h"
#include "kernels/bf16.h"

namespace phalanx {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor Shaped(void* data, DType dtype, const Dims& dims, int64_t gap) {
  Tensor t;
  t.data = data;
  t.dtype = dtype;
  t.rank = static_cast<int>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) t.dims[i] = dims[i];
  t.row_stride = t.row_elements() + gap;
  return t;
}

// What the backend holds of `values`, as it holds it.
std::vector<char> Encode(DType dtype, const Floats& values) {
  std::vector<char> bytes(values.size() * ElementBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t narrow = F32ToBf16(values[i]);
    if (dtype == DType::kBf16) {
      std::memcpy(bytes.data() + 2 * i, &narrow, 2);
    } else {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    }
  }
  return bytes;
}

}  // namespace

float NoiseAt(uint64_t seed, uint64_t index) {
  uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return RoundToBf16(static_cast<float>(z >> 40) / 0x1p23f - 1);
}

Floats Noise(uint64_t seed, int64_t count) {
  Floats values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = NoiseAt(seed, i);
  return values;
}

float RoundToBf16(float value) { return Bf16ToF32(F32ToBf16(value)); }

Rig::Rig(std::unique_ptr<Backend> backend, int64_t gap)
    : backend_(std::move(backend)), gap_(gap) {}

Tensor Rig::Make(DType dtype, const Dims& dims, const Floats& values,
                 int64_t gap) {
  if (dims.size() < 2) gap = 0;
  const Tensor shape = Shaped(nullptr, dtype, dims, gap);
  const int64_t T = dims[0], width = shape.row_elements();
  CHECK(values.empty() || static_cast<int64_t>(values.size()) == T * width);
  Floats content(T * shape.row_stride, kNan);
  for (int64_t t = 0; t < T && !values.empty(); ++t) {
    std::copy(values.begin() + t * width, values.begin() + (t + 1) * width,
              content.begin() + t * shape.row_stride);
  }
  auto buffer = backend_->Allocate(content.size() * ElementBytes(dtype),
                                   MemoryComponent::kActivations, "a tensor");
  CHECK(buffer.ok());
  Tensor whole = MakeTensor(buffer->data(), dtype, T, shape.row_stride);
  backend_->Upload(Encode(dtype, content).data(), whole);
  buffers_.push_back(*std::move(buffer));
  if (gap > 0) padded_.push_back({whole, width});
  return Shaped(whole.data, dtype, dims, gap);
}

Tensor Rig::Act(const Dims& dims, const Floats& values) {
  return Make(act(), dims, values, gap_);
}

Tensor Rig::F32(const Dims& dims, const Floats& values) {
  return Make(DType::kF32, dims, values, gap_);
}

Tensor Rig::Bf16(const Dims& dims, const Floats& values) {
  return Make(DType::kBf16, dims, values, 0);
}

Tensor Rig::Param(const Dims& dims, const Floats& values) {
  return Make(DType::kF32, dims, values, 0);
}

Tensor Rig::I32(const Dims& dims, const Ints& values) {
  Tensor tensor = Make(DType::kI32, dims, {}, 0);
  CHECK(tensor.elements() == static_cast<int64_t>(values.size()));
  backend_->Upload(values.data(), tensor);
  return tensor;
}

Tensor Rig::Places(const Dims& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return I32(dims, Ints(count, -1));
}

const PackedWeight& Rig::Weight(int64_t count, int64_t rows, int64_t cols,
                                const Floats& values, WeightLayout layout,
                                WeightFormat format, int slices) {
  CHECK(static_cast<int64_t>(values.size()) == count * rows * cols);
  auto weight = backend_->AllocateWeight(
      {.count = count,
       .rows = rows,
       .cols = cols,
       .layout = layout,
       .format = format,
       .slices = slices},
      MemoryComponent::kAttention, "a weight");
  CHECK(weight.ok());
  weights_.push_back(std::make_unique<PackedWeight>(*std::move(weight)));
  std::vector<uint16_t> host(rows * cols);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < rows * cols; ++j)
      host[j] = F32ToBf16(values[i * rows * cols + j]);
    backend_->PackWeight(host.data(), i, *weights_.back());
  }
  return *weights_.back();
}

Routing Rig::NewRouting(int64_t T, int64_t E, int64_t K) {
  return {Places({T, K}), Param({T, K}), Places({E + 1}), Places({T * K})};
}

Floats Rig::Download(const Tensor& whole) {
  CHECK(backend_->Synchronize().ok());
  const int64_t count = whole.elements();
  Floats values(count);
  if (whole.dtype == DType::kBf16) {
    std::vector<uint16_t> narrow(count);
    backend_->Download(whole, narrow.data());
    for (int64_t i = 0; i < count; ++i) values[i] = Bf16ToF32(narrow[i]);
  } else {
    backend_->Download(whole, values.data());
  }
  return values;
}

Floats Rig::Read(const Tensor& tensor) {
  const int64_t T = tensor.dims[0], width = tensor.row_elements();
  if (T == 0) return {};
  // The last row has no gap behind it that must be readable.
  Floats values;
  for (int64_t t = 0; t < T; ++t) {
    Tensor row = Rows(tensor, t, 1);
    row.row_stride = width;
    const Floats part = Download(row);
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

Ints Rig::ReadInts(const Tensor& tensor) {
  CHECK(backend_->Synchronize().ok());
  Ints values(tensor.elements());
  backend_->Download(tensor, values.data());
  return values;
}

bool Rig::GapsUntouched() {
  for (const Padded& padded : padded_) {
    const Floats values = Download(padded.whole);
    const int64_t stride = padded.whole.dims[1], width = padded.width;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool in_gap = static_cast<int64_t>(i) % stride >= width;
      if (in_gap && !std::isnan(values[i])) return false;
    }
  }
  return true;
}

}  // namespace phalanx
