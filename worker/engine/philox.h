#ifndef PHALANX_WORKER_ENGINE_PHILOX_H_
#define PHALANX_WORKER_ENGINE_PHILOX_H_

#include <array>
#include <cstdint>

namespace phalanx {

// Philox4x32-10: 128 random bits as a pure function of a 128-bit counter and a
// 64-bit key; there is no state. Salmon, Moraes, Dror, Shaw 2011, "Parallel
// random numbers: as easy as 1, 2, 3".
inline std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;  // The golden ratio.
  constexpr uint32_t kWeyl1 = 0xBB67AE85;  // The square root of 3, less 1.
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    const auto high0 = static_cast<uint32_t>(product0 >> 32);
    const auto high1 = static_cast<uint32_t>(product1 >> 32);
    counter = {high1 ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               high0 ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

}  // namespace phalanx

#endif  // PHALANX_WORKER_ENGINE_PHILOX_H_
