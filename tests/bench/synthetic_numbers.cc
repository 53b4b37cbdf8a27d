#include "tests/bench/synthetic_numbers.h"

#include <cmath>
#include <cstring>

#include "common/check.h"
#include "kernels/bf16.h"
#include "worker/checkpoint/fp8.h"

namespace phalanx {
namespace {

constexpr size_t kEntries = size_t{1} << NumberTable::kBits;
constexpr double kLargestCode = 448;

// The finaliser of splitmix64: every bit of the counter moves every bit.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Where the normal distribution has the probability `p` below it.
double NormalQuantile(double p) {
  double low = -8;
  double high = 8;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    const bool below = std::erfc(-middle / std::sqrt(2.0)) / 2 < p;
    (below ? low : high) = middle;
  }
  return (low + high) / 2;
}

double ProbabilityOf(size_t entry) {
  return (static_cast<double>(entry) + 0.5) / static_cast<double>(kEntries);
}

const std::vector<double>& NormalQuantiles() {
  static const auto* const quantiles = [] {
    auto* all = new std::vector<double>(kEntries);
    for (size_t i = 0; i < kEntries; ++i)
      (*all)[i] = NormalQuantile(ProbabilityOf(i));
    return all;
  }();
  return *quantiles;
}

double Quantile(const NumberLaw& law, size_t entry) {
  const double p = ProbabilityOf(entry);
  const double largest = NormalQuantiles().back();
  switch (law.kind) {
    case NumberLaw::kNormal:
      return law.mean + law.deviation * NormalQuantiles()[entry];
    case NumberLaw::kLogDecay:
      return std::log(1 + 15 * p);
    case NumberLaw::kTimeStep:
      return std::log(std::expm1(0.001 * std::pow(100.0, p)));
    case NumberLaw::kFp8Codes:
      return NormalQuantiles()[entry] * kLargestCode / largest;
    case NumberLaw::kFp8Multipliers:
      return law.deviation * largest / kLargestCode * (0.9 + 0.2 * p);
  }
  CHECK(false);  // Every law has quantiles.
  return 0;
}

// The nearest of E4M3's numbers; of two as near, the one with the lower code.
uint8_t ToE4M3(double value) {
  constexpr int kPositive = 0x7f;  // Itself not a number.
  uint8_t best = 0;
  for (int code = 1; code < kPositive; ++code)
    if (std::abs(Fp8E4M3ToF32(static_cast<uint8_t>(code)) - std::abs(value)) <
        std::abs(Fp8E4M3ToF32(best) - std::abs(value)))
      best = static_cast<uint8_t>(code);
  return value < 0 ? best | 0x80 : best;
}

template <typename T>
void FillFrom(const std::vector<T>& table, uint64_t key, int64_t first,
              std::span<std::byte> out) {
  constexpr int64_t kLanes = NumberTable::kLanes;
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  constexpr uint64_t kMask = kEntries - 1;
  CHECK(first % kLanes == 0 && out.size() % sizeof(T) == 0);
  const T* const from = table.data();
  const auto count = static_cast<int64_t>(out.size() / sizeof(T));
  uint64_t counter = key + static_cast<uint64_t>(first / kLanes) * kStep;
  for (int64_t i = 0; i < count; i += kLanes, counter += kStep) {
    const uint64_t bits = Mix(counter);
    const T lanes[kLanes] = {from[bits & kMask], from[bits >> 16 & kMask],
                             from[bits >> 32 & kMask],
                             from[bits >> 48 & kMask]};
    std::byte* const to = out.data() + static_cast<size_t>(i) * sizeof(T);
    if (i + kLanes <= count)
      std::memcpy(to, lanes, sizeof(lanes));
    else
      std::memcpy(to, lanes, static_cast<size_t>(count - i) * sizeof(T));
  }
}

}  // namespace

uint64_t NumberKey(uint64_t seed, absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a.
  for (const char c : name)
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return Mix(hash + Mix(seed));
}

NumberTable::NumberTable(const NumberLaw& law, StoredType type) {
  CHECK((law.kind == NumberLaw::kFp8Codes) == (type == StoredType::kF8E4M3));
  for (size_t i = 0; i < kEntries; ++i) {
    const double value = Quantile(law, i);
    if (type == StoredType::kF8E4M3)
      codes_.push_back(ToE4M3(value));
    else if (type == StoredType::kBf16)
      halves_.push_back(F32ToBf16(static_cast<float>(value)));
    else
      floats_.push_back(static_cast<float>(value));
  }
}

void NumberTable::Fill(uint64_t key, int64_t first,
                       std::span<std::byte> out) const {
  if (!codes_.empty())
    FillFrom(codes_, key, first, out);
  else if (!halves_.empty())
    FillFrom(halves_, key, first, out);
  else
    FillFrom(floats_, key, first, out);
}

}  // namespace phalanx
