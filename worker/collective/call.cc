#include "worker/collective/call.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace phalanx {

std::string CallName(CallTag tag) {
  constexpr const char* kNames[] = {"nothing",         "all_reduce_f32",
                                    "all_reduce_bf16", "all_gather",
                                    "broadcast",       "barrier"};
  const uint64_t kind = tag >> 56;
  return absl::StrCat(kind < std::size(kNames) ? kNames[kind] : "unknown", "(",
                      tag & 0xff'ffff'ffff'ffffu, ")");
}

CallTag CheckedAllReduce(const Tensor& partial, const Tensor& out) {
  CHECK(partial.dtype == DType::kF32 && partial.contiguous());
  CHECK(out.dtype == DType::kF32 || out.dtype == DType::kBf16);
  CHECK(out.contiguous() && out.elements() == partial.elements());
  return MakeCallTag(out.dtype == DType::kF32 ? CallKind::kAllReduceToF32
                                              : CallKind::kAllReduceToBf16,
                     partial.elements());
}

CallTag CheckedAllGather(const Tensor& mine, const Tensor& all, int size) {
  CHECK(mine.contiguous() && all.contiguous() && mine.dtype == all.dtype);
  CHECK(all.elements() == mine.elements() * size);
  return MakeCallTag(CallKind::kAllGather,
                     mine.elements() * ElementBytes(mine.dtype));
}

}  // namespace phalanx
