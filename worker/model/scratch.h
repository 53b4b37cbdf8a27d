#ifndef PHALANX_WORKER_MODEL_SCRATCH_H_
#define PHALANX_WORKER_MODEL_SCRATCH_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace phalanx {

// Activations: one arena sized at start, given out in frames that pop. A step
// allocates nothing. Used by the engine thread alone.
class Scratch {
 public:
  static absl::StatusOr<std::unique_ptr<Scratch>> Create(Backend& backend,
                                                         int64_t bytes);

  // What a tensor of n elements takes of the arena.
  static int64_t Bytes(int64_t n, DType type);

  // Tensors taken through a frame live until the frame dies. Asking for more
  // than the arena holds is a bug in the size given to Create.
  class Frame {
   public:
    explicit Frame(Scratch& scratch)
        : scratch_(scratch), mark_(scratch.used_) {}
    ~Frame() { scratch_.used_ = mark_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

    // Contiguous, contents undefined. Act is the backend's activation type.
    template <typename... Dims>
    Tensor Act(Dims... dims) {
      return Take(MakeTensor(nullptr, scratch_.act_, dims...));
    }
    template <typename... Dims>
    Tensor F32(Dims... dims) {
      return Take(MakeTensor(nullptr, DType::kF32, dims...));
    }
    template <typename... Dims>
    Tensor I32(Dims... dims) {
      return Take(MakeTensor(nullptr, DType::kI32, dims...));
    }

   private:
    Tensor Take(Tensor shape);

    Scratch& scratch_;
    int64_t mark_;
  };

 private:
  Scratch(Buffer memory, DType act) : memory_(std::move(memory)), act_(act) {}

  Buffer memory_;
  DType act_;
  int64_t used_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_SCRATCH_H_
