#include "worker/model/scratch.h"

#include "common/check.h"
#include "common/status.h"
#include "common/units.h"

namespace phalanx {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<Scratch>> Scratch::Create(Backend& backend,
                                                         int64_t bytes) {
  ASSIGN_OR_RETURN(Buffer memory,
                   backend.Allocate(bytes, MemoryComponent::kActivations,
                                    "the activations of a step"));
  return std::unique_ptr<Scratch>(
      new Scratch(std::move(memory), backend.activation_dtype()));
}

int64_t Scratch::Bytes(int64_t n, DType type) {
  return RoundUp(n * ElementBytes(type), kAlignment);
}

Tensor Scratch::Frame::Take(Tensor shape) {
  const int64_t bytes = Bytes(shape.elements(), shape.dtype);
  CHECK(scratch_.used_ + bytes <= scratch_.memory_.bytes());
  shape.data = static_cast<char*>(scratch_.memory_.data()) + scratch_.used_;
  scratch_.used_ += bytes;
  return shape;
}

}  // namespace phalanx
