#ifndef PHALANX_KERNELS_BACKEND_H_
#define PHALANX_KERNELS_BACKEND_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/buffer.h"
#include "kernels/memory.h"
#include "kernels/ops.h"
#include "kernels/packed_weight.h"
#include "kernels/tensor.h"

namespace phalanx {

// One device: its memory, its operations, its threads. Made by a composition
// root (worker/main.cc or a test), outlives everything that holds a Buffer.
// Allocate comes from the thread that loads, the ops from the engine thread;
// never two at once. PackWeight, PackCodes, StorePacked and ReadPacked are for
// any thread, several at once and beside ops and Upload, as long as no two
// touch the same matrix; they are done with host memory, and the matrix is
// there for ops, when they return. An op touches its matrices until a
// Synchronize after it.
class Backend {
 public:
  virtual ~Backend() = default;

  // The type of activations, and so of what the model rounds to: bf16 for a
  // served backend, f32 for the reference.
  virtual DType activation_dtype() const = 0;

  // The kernels' part of the numerics id: equal strings promise equal bits.
  // "fma-1", "bf16dot-1".
  virtual std::string kernel_family() const = 0;

  // What the hardware runs, for GetStatus and logs: "avx512", "avx2",
  // "portable".
  virtual std::string instruction_set() const = 0;
  virtual int threads() const = 0;

  // Zeroed memory, at least 64-byte aligned. RESOURCE_EXHAUSTED names `what`,
  // the bytes asked for and what is free.
  virtual absl::StatusOr<Buffer> Allocate(int64_t bytes,
                                          MemoryComponent component,
                                          absl::string_view what) = 0;

  // Held now, padding included. Any thread.
  virtual int64_t allocated_bytes(MemoryComponent component) const = 0;
  int64_t allocated_bytes_of(MemoryCategory category) const {
    int64_t bytes = 0;
    for (int i = 0; i < kMemoryComponents; ++i) {
      const auto component = static_cast<MemoryComponent>(i);
      if (CategoryOf(component) == category)
        bytes += allocated_bytes(component);
    }
    return bytes;
  }

  // Host and device memory; `device` is contiguous. Upload is done with host
  // memory on return, and ops that follow see it; Download waits for what was
  // enqueued. An error of theirs is told by the next Synchronize.
  virtual void Upload(const void* host, Tensor device) = 0;
  virtual void Download(Tensor device, void* host) = 0;

  // Room for shape.count matrices. UNIMPLEMENTED names `what` and a format that
  // this backend has no products for.
  virtual absl::StatusOr<PackedWeight> AllocateWeight(
      const WeightShape& shape, MemoryComponent component,
      absl::string_view what) = 0;

  // Fills matrix `index` from host rows: bf16 [rows, cols], row-major. A weight
  // of another format is quantised on the way, row by row (QuantiseWeightRow).
  virtual void PackWeight(const uint16_t* host, int64_t index,
                          PackedWeight& weight) = 0;

  // The same from what QuantiseWeightRow gave, for a weight of that format:
  // codes [rows, cols], a byte each, and scales [rows, groups].
  virtual void PackCodes(const uint8_t* codes, const uint16_t* scales,
                         int64_t index, PackedWeight& weight) = 0;

  // How weights lie in this backend's memory: equal strings promise that a
  // matrix which ReadPacked gave may be stored by StorePacked, in another
  // process too. "tiles32-1".
  virtual std::string packed_layout() const = 0;

  // Fills matrix `index` with weight.matrix_bytes that ReadPacked gave for a
  // matrix of the same rows, cols and layout: a plain copy.
  virtual void StorePacked(const void* packed, int64_t index,
                           PackedWeight& weight) = 0;
  virtual void ReadPacked(const PackedWeight& weight, int64_t index,
                          void* packed) = 0;

  // Waits for all that was enqueued; the first device error since the last
  // call, naming the operation.
  virtual absl::Status Synchronize() = 0;

  virtual Ops& ops() = 0;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_BACKEND_H_
