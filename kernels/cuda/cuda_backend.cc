#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/mutex.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/packed_tile.h"
#include "kernels/op_checks.h"
#include "kernels/weight_limits.h"

namespace phalanx {
namespace {

using cuda::CudaErrors;
using cuda::kTileElements;
using cuda::kTileHalf;
using cuda::kTileOutputs;
using cuda::PackArgs;
using cuda::ProductFn;
using cuda::Told;

// What cudaMalloc's memory begins at a multiple of, and so is counted in.
constexpr int64_t kAllocationBytes = 256;
constexpr int64_t kMinStagingBytes = kTileElements * 2;
constexpr int64_t kMaxStagingBytes = int64_t{1} << 30;

// The first compute capability with mma on bf16.
constexpr int kTensorCoreCapability = 80;

int64_t PaddedBytes(int64_t bytes) {
  return RoundUp(std::max<int64_t>(bytes, 1), kAllocationBytes);
}

struct StreamDeleter {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream =
    std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDeleter>;

// One stream for ops and one for weights, so that a weight can be brought in
// beside ops. Both belong to no other, so nothing waits for anybody else.
struct Streams {
  Stream ops;
  Stream weights;
};

class CudaBackend final : public Backend {
 public:
  // `capability` is 10 major + minor.
  CudaBackend(const CudaBackendConfig& config, int capability,
              ProductFn tensor_core, Streams streams)
      : config_(config),
        capability_(capability),
        streams_(std::move(streams)),
        ops_({config.device, streams_.ops.get(), config.synchronize_each_op},
             config.tensor_cores ? tensor_core : nullptr, errors_) {}

  ~CudaBackend() override {
    staging_ = Buffer();
    CHECK(held_.load() == 0);
  }

  // Takes what weights pass through; shows that a kernel runs on this card.
  absl::Status Prepare();

  DType activation_dtype() const override { return DType::kBf16; }
  std::string kernel_family() const override {
    // Without tensor cores every op is the chain of kernels/cpu's fma.
    return config_.tensor_cores ? absl::StrCat("cuda-sm", capability_, "-1")
                                : "fma-1";
  }
  std::string instruction_set() const override {
    return absl::StrCat("sm_", capability_);
  }
  int threads() const override { return 1; }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, MemoryComponent component,
                                  absl::string_view what) override;
  int64_t allocated_bytes(MemoryComponent component) const override {
    return by_component_[static_cast<size_t>(component)].load(
        std::memory_order_relaxed);
  }

  void Upload(const void* host, Tensor device) override;
  void Download(Tensor device, void* host) override;

  absl::StatusOr<PackedWeight> AllocateWeight(const WeightShape& shape,
                                              MemoryComponent component,
                                              absl::string_view what) override;
  void PackWeight(const uint16_t* host, int64_t index,
                  PackedWeight& weight) override;
  void PackCodes(const uint8_t* codes, const uint16_t* scales, int64_t index,
                 PackedWeight& weight) override {
    CheckPackCodes(codes, scales, index, weight);
  }
  std::string packed_layout() const override { return "mma16x16-1"; }
  void StorePacked(const void* packed, int64_t index,
                   PackedWeight& weight) override;
  void ReadPacked(const PackedWeight& weight, int64_t index,
                  void* packed) override;

  absl::Status Synchronize() override;
  Ops& ops() override { return ops_; }

 private:
  // Copies and waits, after all that the stream was given before.
  cudaError_t Copy(void* to, const void* from, int64_t bytes,
                   cudaMemcpyKind kind, cudaStream_t stream);
  cudaError_t Zero(void* data, int64_t bytes);
  // Rows of tiles [first, first + tiles) of a matrix, through staging_.
  cudaError_t PackTileRows(const uint16_t* host, const PackedWeight& weight,
                           int64_t first, int64_t tiles, uint16_t* packed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(staging_mutex_);
  int64_t FreeBytes() const;
  void Count(MemoryComponent component, int64_t bytes) {
    held_.fetch_add(bytes, std::memory_order_relaxed);
    by_component_[static_cast<size_t>(component)].fetch_add(
        bytes, std::memory_order_relaxed);
  }

  const CudaBackendConfig config_;
  const int capability_;
  const Streams streams_;
  std::atomic<int64_t> held_{0};
  std::array<std::atomic<int64_t>, kMemoryComponents> by_component_{};
  CudaErrors errors_;
  cuda::CudaOps ops_;
  Mutex staging_mutex_;
  Buffer staging_;  // Its bytes are guarded by staging_mutex_.
};

// What lies at matrix `index`.
char* MatrixOf(const PackedWeight& weight, int64_t index) {
  CHECK(index >= 0 && index < weight.count);
  return static_cast<char*>(weight.storage.data()) +
         index * weight.matrix_bytes;
}

absl::Status CudaBackend::Prepare() {
  ASSIGN_OR_RETURN(
      staging_, Allocate(config_.staging_bytes, MemoryComponent::kActivations,
                         "room for weights on their way"));
  auto* rows = static_cast<uint16_t*>(staging_.data());
  PackArgs args = {.low = rows, .high = rows, .cols = 2, .tiles = 1};
  args.packed = rows;  // No row is there: it fills the tile with zeros.
  const cudaStream_t stream = streams_.ops.get();
  cudaError_t error = cuda::PackTiles(args, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "no kernel of the CUDA plugin runs on device ", config_.device,
      ", which is ", instruction_set(), ": ", Told("PackTiles", error)));
}

int64_t CudaBackend::FreeBytes() const {
  size_t free_bytes = 0, total = 0;
  if (cudaSetDevice(config_.device) != cudaSuccess ||
      cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
    return 0;
  const auto free = static_cast<int64_t>(free_bytes);
  if (config_.memory_limit_bytes == 0) return free;
  return std::min(free, config_.memory_limit_bytes - held_.load());
}

absl::StatusOr<Buffer> CudaBackend::Allocate(int64_t bytes,
                                             MemoryComponent component,
                                             absl::string_view what) {
  CHECK(bytes >= 0);
  const int64_t padded = bytes <= kMaxBufferBytes ? PaddedBytes(bytes) : bytes;
  const bool within = padded <= kMaxBufferBytes && padded <= FreeBytes();
  void* data = nullptr;
  if (!within || cudaMalloc(&data, padded) != cudaSuccess) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " needs ", padded, " bytes; free are ", FreeBytes(),
                     " on CUDA device ", config_.device));
  }
  Count(component, padded);
  Buffer buffer(data, bytes, [this, component](void* held, int64_t size) {
    errors_.Transferred("cudaFree", cudaFree(held));
    Count(component, -PaddedBytes(size));
  });
  if (const cudaError_t error = Zero(data, padded); error != cudaSuccess)
    return absl::InternalError(absl::StrCat(what, ": ", Told("zero", error)));
  return buffer;
}

cudaError_t CudaBackend::Zero(void* data, int64_t bytes) {
  const cudaStream_t stream = streams_.ops.get();
  const cudaError_t error = cudaMemsetAsync(data, 0, bytes, stream);
  return error != cudaSuccess ? error : cudaStreamSynchronize(stream);
}

cudaError_t CudaBackend::Copy(void* to, const void* from, int64_t bytes,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  cudaError_t error = cudaSetDevice(config_.device);
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(to, from, bytes, kind, stream);
  return error != cudaSuccess ? error : cudaStreamSynchronize(stream);
}

void CudaBackend::Upload(const void* host, Tensor device) {
  CHECK(device.contiguous());
  errors_.Transferred(
      "Upload",
      Copy(device.data, host, device.elements() * ElementBytes(device.dtype),
           cudaMemcpyHostToDevice, streams_.ops.get()));
}

void CudaBackend::Download(Tensor device, void* host) {
  CHECK(device.contiguous());
  errors_.Transferred(
      "Download",
      Copy(host, device.data, device.elements() * ElementBytes(device.dtype),
           cudaMemcpyDeviceToHost, streams_.ops.get()));
}

absl::StatusOr<PackedWeight> CudaBackend::AllocateWeight(
    const WeightShape& shape, MemoryComponent component,
    absl::string_view what) {
  CheckWeightShape(shape);
  RETURN_IF_ERROR(CheckBf16Only(shape, what));
  const int64_t max_cols =
      std::min(kMaxWeightCols, config_.staging_bytes / (kTileOutputs * 2));
  RETURN_IF_ERROR(CheckWeightLimits(shape, max_cols, FreeBytes(), what));
  PackedWeight w{shape, {}, 0};
  w.matrix_bytes = cuda::OutputTiles(shape.layout, shape.rows) *
                   cuda::ColumnTiles(shape.cols) * kTileElements * 2;
  ASSIGN_OR_RETURN(w.storage,
                   Allocate(shape.count * w.matrix_bytes, component, what));
  return w;
}

void CudaBackend::PackWeight(const uint16_t* host, int64_t index,
                             PackedWeight& weight) {
  CheckPackWeight(host, index, weight);
  auto* packed = reinterpret_cast<uint16_t*>(MatrixOf(weight, index));
  const int64_t all = cuda::OutputTiles(weight.layout, weight.rows);
  const int64_t at_once =
      config_.staging_bytes / (kTileOutputs * weight.cols * 2);
  MutexLock lock(staging_mutex_);
  for (int64_t first = 0; first < all; first += at_once) {
    errors_.Transferred(
        "PackWeight",
        PackTileRows(
            host, weight, first, std::min(at_once, all - first),
            packed + first * cuda::ColumnTiles(weight.cols) * kTileElements));
  }
}

cudaError_t CudaBackend::PackTileRows(const uint16_t* host,
                                      const PackedWeight& weight, int64_t first,
                                      int64_t tiles, uint16_t* packed) {
  const cudaStream_t stream = streams_.weights.get();
  const int64_t cols = weight.cols;
  auto* staged = static_cast<uint16_t*>(staging_.data());
  PackArgs args = {.cols = cols, .tiles = tiles, .packed = packed};
  args.low = staged;
  cudaError_t error;
  if (weight.layout == WeightLayout::kPlain) {
    const int64_t begin = first * kTileOutputs;
    const int64_t rows = std::min(tiles * kTileOutputs, weight.rows - begin);
    args.step = kTileOutputs;
    args.low_rows = rows;
    args.high = staged + kTileHalf * cols;
    args.high_rows = rows - kTileHalf;
    error = Copy(staged, host + begin * cols, rows * cols * 2,
                 cudaMemcpyHostToDevice, stream);
  } else {
    const int64_t half = weight.rows / 2;
    const int64_t begin = first * kTileHalf;
    const int64_t rows = std::min(tiles * kTileHalf, half - begin);
    args.step = kTileHalf;
    args.low_rows = args.high_rows = rows;
    args.high = staged + rows * cols;
    error = Copy(staged, host + begin * cols, rows * cols * 2,
                 cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess)
      error = Copy(staged + rows * cols, host + (half + begin) * cols,
                   rows * cols * 2, cudaMemcpyHostToDevice, stream);
  }
  if (error == cudaSuccess) error = cuda::PackTiles(args, stream);
  return error != cudaSuccess ? error : cudaStreamSynchronize(stream);
}

void CudaBackend::StorePacked(const void* packed, int64_t index,
                              PackedWeight& weight) {
  errors_.Transferred("StorePacked",
                      Copy(MatrixOf(weight, index), packed, weight.matrix_bytes,
                           cudaMemcpyHostToDevice, streams_.weights.get()));
}

void CudaBackend::ReadPacked(const PackedWeight& weight, int64_t index,
                             void* packed) {
  errors_.Transferred("ReadPacked",
                      Copy(packed, MatrixOf(weight, index), weight.matrix_bytes,
                           cudaMemcpyDeviceToHost, streams_.weights.get()));
}

absl::Status CudaBackend::Synchronize() {
  return errors_.Take(cudaStreamSynchronize(streams_.ops.get()));
}

absl::Status CheckConfig(const CudaBackendConfig& config) {
  if (config.device < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device is ", config.device, "; must be 0 or more"));
  }
  if (config.memory_limit_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory_limit_bytes is ", config.memory_limit_bytes,
                     "; must be 0 (the card's) or more"));
  }
  if (config.staging_bytes < kMinStagingBytes ||
      config.staging_bytes > kMaxStagingBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("staging_bytes is ", config.staging_bytes, "; must be ",
                     kMinStagingBytes, "..", kMaxStagingBytes));
  }
  return absl::OkStatus();
}

// `error` as what the machine lacks, if it is one.
absl::Status Usable(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("no CUDA device can be used: ", Told(call, error)));
}

// Makes the card the thread's; its compute capability as 10 major + minor.
absl::StatusOr<int> TakeDevice(int device) {
  int count = 0;
  RETURN_IF_ERROR(Usable("cudaGetDeviceCount", cudaGetDeviceCount(&count)));
  if (device >= count) {
    return absl::FailedPreconditionError(absl::StrCat(
        "CUDA device ", device, " is not there; this machine has ", count));
  }
  RETURN_IF_ERROR(Usable("cudaSetDevice", cudaSetDevice(device)));
  int major = 0, minor = 0;
  RETURN_IF_ERROR(
      Usable("cudaDeviceGetAttribute",
             cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
                                    device)));
  RETURN_IF_ERROR(
      Usable("cudaDeviceGetAttribute",
             cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor,
                                    device)));
  return 10 * major + minor;
}

absl::StatusOr<Stream> NewStream() {
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(
      Usable("cudaStreamCreate",
             cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)));
  return Stream(stream);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    const CudaBackendConfig& config, ProductFn tensor_core) {
  RETURN_IF_ERROR(CheckConfig(config));
  ASSIGN_OR_RETURN(const int capability, TakeDevice(config.device));
  if (config.tensor_cores &&
      (tensor_core == nullptr || capability < kTensorCoreCapability)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tensor_cores needs a plugin built by nvcc and a card of compute "
        "capability 8.0; this is sm_",
        capability));
  }
  Streams streams;
  ASSIGN_OR_RETURN(streams.ops, NewStream());
  ASSIGN_OR_RETURN(streams.weights, NewStream());
  auto backend = std::make_unique<CudaBackend>(config, capability, tensor_core,
                                               std::move(streams));
  RETURN_IF_ERROR(backend->Prepare());
  return backend;
}

}  // namespace phalanx
