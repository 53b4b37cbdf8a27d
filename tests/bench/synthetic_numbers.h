#ifndef PHALANX_TESTS_BENCH_SYNTHETIC_NUMBERS_H_
#define PHALANX_TESTS_BENCH_SYNTHETIC_NUMBERS_H_

// Numbers of made-up weights: element i of a tensor is a function of the
// tensor's key and i alone, so that any piece of it can be made anywhere, by
// any thread, in any order.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/checkpoint/safetensors.h"

namespace phalanx {

// How the elements of a tensor are distributed.
struct NumberLaw {
  enum Kind : uint8_t {
    kNormal,
    // log A with A uniform in [1, 16]: how fast a state forgets.
    kLogDecay,
    // The inverse of softplus at dt log-uniform in [0.001, 0.1].
    kTimeStep,
    // Codes of a normal distribution whose largest is E4M3's, 448 ...
    kFp8Codes,
    // ... and the multipliers that give them `deviation`, within 10 % of each
    // other.
    kFp8Multipliers,
  };

  Kind kind = kNormal;
  double mean = 0;
  double deviation = 0;

  auto operator<=>(const NumberLaw&) const = default;
};

// Of a tensor: its name under a seed.
uint64_t NumberKey(uint64_t seed, absl::string_view name);

// The quantiles of a law, as the bytes that a type stores: what a random number
// of kBits bits is looked up in. Small enough for the first cache.
class NumberTable {
 public:
  static constexpr int kBits = 13;
  // Pieces begin at a multiple of this many elements.
  static constexpr int64_t kLanes = 4;

  // BF16 for all laws but codes, F32 for the same, F8_E4M3 for codes.
  NumberTable(const NumberLaw& law, StoredType type);

  // Elements `first`, first + 1, ... of the tensor with `key`, as many as `out`
  // has room for; `first` is a multiple of kLanes. Any number of threads.
  void Fill(uint64_t key, int64_t first, std::span<std::byte> out) const;

 private:
  std::vector<uint8_t> codes_;
  std::vector<uint16_t> halves_;
  std::vector<float> floats_;
};

}  // namespace phalanx

#endif  // PHALANX_TESTS_BENCH_SYNTHETIC_NUMBERS_H_
