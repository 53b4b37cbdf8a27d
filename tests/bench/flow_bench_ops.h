#ifndef PHALANX_TESTS_BENCH_FLOW_BENCH_OPS_H_
#define PHALANX_TESTS_BENCH_FLOW_BENCH_OPS_H_

// The ops of a step that read no weights, at the sizes of Qwen3.5-35B-A3B, and
// what each must do at least. States and keys come from memory that no cache
// holds, layer by layer as a model walks them; activations are warm, as the op
// before leaves them.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "kernels/sequences.h"
#include "tests/bench/flow_bench_memory.h"

namespace phalanx {

// The geometry.
inline constexpr int64_t kHidden = 2048;
inline constexpr int64_t kQueryHeads = 16, kKvHeads = 2, kHeadSize = 256;
inline constexpr int64_t kRotaryPairs = 32;
inline constexpr int64_t kKeyHeads = 16, kValueHeads = 32, kDeltaSize = 128;
inline constexpr int64_t kChannels =
    (2 * kKeyHeads + kValueHeads) * kDeltaSize;  // 8192
inline constexpr int64_t kConvWidth = 4;
inline constexpr int64_t kExperts = 256, kExpertsPerToken = 8;
inline constexpr int kLayers = 40, kDeltaLayers = 30, kAttentionLayers = 10;

// A step's shape.
struct Case {
  int64_t tokens;
  int64_t context;
  bool prefill;

  int64_t sequences() const { return prefill ? 1 : tokens; }
  int64_t rows() const { return prefill ? tokens : 1; }
  int64_t positions() const { return context + rows(); }
  int64_t blocks() const {
    return (positions() + kKvBlockTokens - 1) / kKvBlockTokens;
  }
};

// One op of a step.
struct Op {
  const char* name;
  int calls;  // A step of the whole model.
  // What a call must do: bytes read from memory, read and written in memory,
  // moved in cache; f32 operations and those of bf16 products, two a
  // multiply-add.
  double read, update, cached, flops, dots;
  std::function<void(int64_t layer)> run;

  double LimitSeconds(const Limits& l) const {
    return std::max(read / l.read + update / l.update + cached / l.cached,
                    flops / l.fma + dots / std::max(l.fma, l.bf16_dot));
  }
};

// The ops of a case. `memory` outlives it.
class Flow {
 public:
  Flow(Memory& memory, const Case& shape);

  const std::vector<Op>& ops() const { return ops_; }

 private:
  void MakeSequences();
  void AddDelta();
  void AddAttention();
  void AddRest();
  void Add(Op op) { ops_.push_back(std::move(op)); }

  Memory& m_;
  const Case case_;
  const int64_t T_;
  Sequences sequences_;
  std::vector<Op> ops_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_FLOW_BENCH_OPS_H_
