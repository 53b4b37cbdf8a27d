#include "worker/engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "common/check.h"
#include "common/reason.h"
#include "kernels/exact_math.h"
#include "worker/engine/philox.h"
#include "worker/engine/vocabulary_exp.h"

namespace phalanx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Logits whose exponentials are taken at once.
constexpr size_t kExpBlock = 256;

// Up to this many, a heap beside one pass is faster than partitioning a copy.
constexpr int64_t kHeapMost = 1024;

// The largest logit, ties to the lower id, or -1 if a logit is NaN or plus
// infinity or all are minus infinity.
int32_t LargestLogit(std::span<const float> logits) {
  int32_t largest = -1;
  float value = -kInfinity;
  bool finite = true;
  for (size_t i = 0; i < logits.size(); ++i) {
    finite &= logits[i] < kInfinity;  // False for NaN.
    if (logits[i] > value) {
      value = logits[i];
      largest = static_cast<int32_t>(i);
    }
  }
  return finite ? largest : -1;
}

// Before the logarithm: the sum of exp(logit - largest), in id order.
double SumOfExponentials(std::span<const float> logits, float largest) {
  std::array<float, kExpBlock> terms;
  double sum = 0;
  for (size_t first = 0; first < logits.size(); first += kExpBlock) {
    const size_t count = std::min(kExpBlock, logits.size() - first);
    VocabularyExp(logits.subspan(first, count), largest, /*temperature=*/1,
                  std::span(terms).first(count));
    for (size_t i = 0; i < count; ++i) sum += terms[i];
  }
  return sum;
}

// In [0, 1), a function of its arguments alone.
double UniformOf(const SampleSpec& spec) {
  const auto position = static_cast<uint64_t>(spec.position());
  const uint64_t seed = spec.sampling->seed;
  const std::array<uint32_t, 4> bits = Philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
       static_cast<uint32_t>(spec.sampling->choice_index), 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t word = uint64_t{bits[1]} << 32 | bits[0];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

// Integers in the order of the floats, and back; not for NaN.
int64_t OrderKey(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits >= 0 ? bits : int64_t{std::numeric_limits<int32_t>::min()} - bits;
}
float FloatOfKey(int64_t key) {
  const int64_t bits =
      key >= 0 ? key : int64_t{std::numeric_limits<int32_t>::min()} - key;
  return std::bit_cast<float>(static_cast<int32_t>(bits));
}

}  // namespace

Sampler::Sampler(int64_t vocab_size) : vocab_size_(vocab_size) {
  CHECK(vocab_size >= 1);
  candidates_.reserve(vocab_size);
}

absl::StatusOr<Token> Sampler::Sample(std::span<const float> logits,
                                      const SampleSpec& spec) {
  CHECK(static_cast<int64_t>(logits.size()) == vocab_size_);
  const int32_t best = LargestLogit(logits);
  if (best < 0)
    return ReasonedError(absl::StatusCode::kInternal, "NON_FINITE_LOGITS",
                         "a logit is not a number, or none is finite");
  const float largest = logits[best];

  Token token;
  token.id =
      spec.sampling->temperature == 0 ? best : Draw(logits, largest, spec);
  if (!spec.logprobs) return token;
  const double log_sum = LogExact(SumOfExponentials(logits, largest));
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - largest - log_sum);
  };
  token.logprob = logprob(logits[token.id]);
  if (spec.top_n > 0) {
    SelectLargest(logits, spec.top_n);
    for (const Candidate& candidate : candidates_)
      token.top.push_back(
          {.id = candidate.id, .logprob = logprob(candidate.logit)});
  }
  return token;
}

void Sampler::SelectLargest(std::span<const float> logits, int64_t n) {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  };
  candidates_.clear();
  const auto add = [&](int32_t id) {
    // Adding zero makes -0 and +0 the tie that they are.
    if (logits[id] > -kInfinity)
      candidates_.push_back({id, logits[id] + 0.0f, 0});
  };
  if (n > kHeapMost) {
    for (int32_t id = 0; id < vocab_size_; ++id) add(id);
    if (n < static_cast<int64_t>(candidates_.size())) {
      std::nth_element(candidates_.begin(), candidates_.begin() + n,
                       candidates_.end(), better);
      candidates_.resize(n);
    }
    std::sort(candidates_.begin(), candidates_.end(), better);
    return;
  }
  // A heap with the worst of the best so far on top.
  int32_t id = 0;
  for (; id < vocab_size_ && static_cast<int64_t>(candidates_.size()) < n; ++id)
    add(id);
  std::make_heap(candidates_.begin(), candidates_.end(), better);
  for (; id < vocab_size_; ++id) {
    // An equal logit of a higher id loses.
    if (!(logits[id] > candidates_.front().logit)) continue;
    std::pop_heap(candidates_.begin(), candidates_.end(), better);
    candidates_.back() = {id, logits[id] + 0.0f, 0};
    std::push_heap(candidates_.begin(), candidates_.end(), better);
  }
  std::sort_heap(candidates_.begin(), candidates_.end(), better);
}

int32_t Sampler::Draw(std::span<const float> logits, float largest,
                      const SampleSpec& spec) {
  const Sampling& sampling = *spec.sampling;
  if (sampling.top_k > 0 && sampling.top_k < vocab_size_) {
    SelectLargest(logits, sampling.top_k);
    std::sort(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  } else {
    candidates_.clear();
    for (int32_t id = 0; id < vocab_size_; ++id)
      candidates_.push_back({id, logits[id] + 0.0f, 0});
  }
  Weigh(largest, sampling.temperature);
  if (sampling.top_p < 1) KeepTopP(sampling.top_p);
  // The largest weight is exp(0), exactly 1.
  if (sampling.min_p > 0)
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      return candidate.weight < sampling.min_p;
    });

  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  const double target = UniformOf(spec) * total;
  double sum = 0;
  int32_t last_possible = -1;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.weight;
    if (sum > target) return candidate.id;
    if (candidate.weight > 0) last_possible = candidate.id;
  }
  // The product of the largest u and the total was rounded up to the total.
  return last_possible;
}

void Sampler::Weigh(float largest, float temperature) {
  std::array<float, kExpBlock> logits;
  std::array<float, kExpBlock> weights;
  for (size_t first = 0; first < candidates_.size(); first += kExpBlock) {
    const size_t count = std::min(kExpBlock, candidates_.size() - first);
    for (size_t i = 0; i < count; ++i) logits[i] = candidates_[first + i].logit;
    VocabularyExp(std::span(logits).first(count), largest, temperature,
                  std::span(weights).first(count));
    for (size_t i = 0; i < count; ++i)
      candidates_[first + i].weight = weights[i];
  }
}

// The nucleus is the shortest list of best candidates (by logit, then id) whose
// weights, summed in id order, reach top_p of the whole. Such sums never fall
// when a candidate is added, since rounding keeps order; so the end of the list
// may be found by bisection: first its last logit, then, among equals, its last
// id.
void Sampler::KeepTopP(float top_p) {
  const double total = SumFrom(-kInfinity).weight;
  const double target = double{top_p} * total;
  DropHopeless(total, target);

  // Those from `low` on suffice; those from `high` on do not.
  int64_t low = std::numeric_limits<int64_t>::max();
  int64_t high = std::numeric_limits<int64_t>::min();
  for (const Candidate& candidate : candidates_) {
    low = std::min(low, OrderKey(candidate.logit));
    high = std::max(high, OrderKey(candidate.logit) + 1);
  }
  auto count_low = static_cast<int64_t>(candidates_.size());
  int64_t count_high = 0;
  while (high - low > 1 && count_low - count_high > 1) {
    const int64_t middle = low + (high - low) / 2;
    const Sum sum = SumFrom(FloatOfKey(middle));
    const bool suffices = sum.weight >= target;
    (suffices ? low : high) = middle;
    (suffices ? count_low : count_high) = sum.count;
  }
  float last = kInfinity;  // The logit at which the list ends.
  for (const Candidate& candidate : candidates_) {
    if (candidate.logit >= FloatOfKey(low))
      last = std::min(last, candidate.logit);
  }
  int64_t ties = TiesNeeded(last, target);
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    return candidate.logit < last || (candidate.logit == last && ties-- <= 0);
  });
}

Sampler::Sum Sampler::SumFrom(float logit) const {
  Sum sum;
  for (const Candidate& candidate : candidates_) {
    // A product, since a branch would be mispredicted half of the time.
    const int counts = candidate.logit >= logit ? 1 : 0;
    sum.weight += candidate.weight * static_cast<float>(counts);
    sum.count += counts;
  }
  return sum;
}

// What weighs less than an even share of the rest is not in the nucleus, since
// all of that together weighs less than the rest. Leaves few where a few are
// likely.
void Sampler::DropHopeless(double total, double target) {
  const double share =
      (total - target) / static_cast<double>(candidates_.size());
  float cut = kInfinity;
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight >= share) cut = std::min(cut, candidate.logit);
  }
  if (SumFrom(cut).weight < target) return;  // Rounding: a close call.
  std::erase_if(candidates_, [cut](const Candidate& candidate) {
    return candidate.logit < cut;
  });
}

// How many of the candidates whose logit is `last`, from the lowest id on, must
// join the better ones to reach `target`.
int64_t Sampler::TiesNeeded(float last, double target) const {
  int64_t too_few = 0;
  int64_t enough = 0;
  for (const Candidate& candidate : candidates_)
    enough += candidate.logit == last;
  while (enough - too_few > 1) {
    const int64_t middle = too_few + (enough - too_few) / 2;
    int64_t left = middle;
    double sum = 0;
    for (const Candidate& candidate : candidates_) {
      if (candidate.logit > last || (candidate.logit == last && left-- > 0))
        sum += candidate.weight;
    }
    (sum >= target ? enough : too_few) = middle;
  }
  return enough;
}

}  // namespace phalanx
