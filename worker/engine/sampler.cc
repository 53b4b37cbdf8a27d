#include "worker/engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/reason.h"
#include "common/status.h"
#include "common/units.h"
#include "kernels/exact_math.h"
#include "worker/engine/philox.h"
#include "worker/engine/vocabulary_exp.h"

namespace phalanx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Below, a processor that flushes denormals would divide by 0.
constexpr float kLeastTemperature = std::numeric_limits<float>::min();

// Logits that are looked at together.
constexpr size_t kBlock = 256;

// Up to this many, a heap beside one pass is faster than partitioning a copy.
constexpr int64_t kHeapMost = 1024;

// Of a block; and whether all are below infinity, which NaN is not. Lanes, so
// that the compiler uses vectors: it may not change the order of comparisons.
struct BlockMost {
  float value;
  bool finite;
};
BlockMost MostOf(std::span<const float> logits) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> most;
  std::array<int32_t, kLanes> finite;
  most.fill(-kInfinity);
  finite.fill(1);
  const float* __restrict from = logits.data();
  size_t first = 0;
  for (; first + kLanes <= logits.size(); first += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) {
      const float logit = from[first + i];
      most[i] = logit > most[i] ? logit : most[i];
      finite[i] &= logit < kInfinity ? 1 : 0;
    }
  }
  for (; first < logits.size(); ++first) {
    most[0] = from[first] > most[0] ? from[first] : most[0];
    finite[0] &= from[first] < kInfinity ? 1 : 0;
  }
  return {.value = *std::max_element(most.begin(), most.end()),
          .finite = *std::min_element(finite.begin(), finite.end()) == 1};
}

// The largest logit, ties to the lower id, or -1 if a logit is NaN or plus
// infinity or all are minus infinity.
int32_t LargestLogit(std::span<const float> logits) {
  float value = -kInfinity;
  std::span<const float> best;  // The first block that holds it.
  for (size_t first = 0; first < logits.size(); first += kBlock) {
    const auto block =
        logits.subspan(first, std::min(kBlock, logits.size() - first));
    const BlockMost most = MostOf(block);
    if (!most.finite) return -1;
    if (!(most.value > value)) continue;
    value = most.value;
    best = block;
  }
  if (best.empty()) return -1;
  const auto at = std::find(best.begin(), best.end(), value);
  return static_cast<int32_t>(&*at - logits.data());
}

absl::Status NonFinite(absl::string_view what) {
  return ReasonedError(absl::StatusCode::kInternal, "NON_FINITE_LOGITS", what);
}

// Before the logarithm: the sum of exp(logit - largest), in id order.
double SumOfExponentials(std::span<const float> logits, float largest) {
  std::array<float, kBlock> terms;
  double sum = 0;
  for (size_t first = 0; first < logits.size(); first += kBlock) {
    const size_t count = std::min(kBlock, logits.size() - first);
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

Sampler::Sampler(int64_t vocab_size)
    : vocab_size_(vocab_size),
      adjusted_(vocab_size),
      weights_(vocab_size),
      running_(CeilDivide(vocab_size, int64_t{kBlock}) + 1) {
  candidates_.reserve(vocab_size);
}

int64_t Sampler::Bytes(int64_t vocab_size) {
  return AdjustedLogits::Bytes(vocab_size) +
         vocab_size * int64_t{sizeof(float) + sizeof(Candidate)} +
         (CeilDivide(vocab_size, int64_t{kBlock}) + 1) *
             int64_t{sizeof(double)};
}

absl::StatusOr<Token> Sampler::Sample(std::span<const float> logits,
                                      const SampleSpec& spec) {
  CHECK(static_cast<int64_t>(logits.size()) == vocab_size_);
  const int32_t best = LargestLogit(logits);
  if (best < 0) return NonFinite("a logit is not a number, or none is finite");

  Token token;
  ASSIGN_OR_RETURN(token.id, Choose(logits, best, spec));
  if (!spec.logprobs) return token;
  const float largest = logits[best];
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

// `best`: of the raw logits.
absl::StatusOr<int32_t> Sampler::Choose(std::span<const float> logits,
                                        int32_t best, const SampleSpec& spec) {
  if (spec.given.has_value()) {
    CHECK(*spec.given >= 0 && *spec.given < vocab_size_);
    return *spec.given;
  }
  const std::span<const float> adjusted = adjusted_.Of(logits, spec);
  if (adjusted.data() != logits.data()) best = LargestLogit(adjusted);
  if (best < 0)
    return NonFinite("no logit of a token that may be drawn is finite");
  if (spec.sampling->temperature < kLeastTemperature) return best;
  return Draw(adjusted, adjusted[best], spec);
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
  const double u = UniformOf(spec);
  const double top_p = sampling.top_p;
  if (sampling.top_k > 0 && sampling.top_k < vocab_size_) {
    SelectLargest(logits, sampling.top_k);
    std::sort(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
    Weigh(largest, sampling.temperature);
    if (top_p < 1) KeepTopP(top_p * SumFrom(-kInfinity).weight);
  } else if (top_p < 1) {
    const double total =
        WeighAll(logits, largest, sampling.temperature, /*min_p=*/0);
    GatherHopeful(logits, total, top_p * total);
    KeepTopP(top_p * total);
  } else {
    return DrawFromAll(
        u * WeighAll(logits, largest, sampling.temperature, sampling.min_p));
  }
  // The largest weight is exp(0), exactly 1.
  if (sampling.min_p > 0)
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      return candidate.weight < sampling.min_p;
    });
  return DrawFromCandidates(u);
}

double Sampler::WeighAll(std::span<const float> logits, float largest,
                         float temperature, float min_p) {
  double sum = 0;
  for (size_t first = 0; first < logits.size(); first += kBlock) {
    const size_t count = std::min(kBlock, logits.size() - first);
    const std::span<float> weights = std::span(weights_).subspan(first, count);
    VocabularyExp(logits.subspan(first, count), largest, temperature, weights);
    if (min_p > 0)
      for (float& weight : weights) weight = weight < min_p ? 0 : weight;
    running_[first / kBlock] = sum;
    for (const float weight : weights) sum += weight;
  }
  running_.back() = sum;
  return sum;
}

// The same additions as from the first id on, so the same sums.
int32_t Sampler::DrawFromAll(double target) const {
  const auto end =
      std::upper_bound(running_.begin() + 1, running_.end(), target);
  if (end != running_.end()) {
    const size_t block = end - running_.begin() - 1;
    double sum = running_[block];
    for (size_t id = block * kBlock; id < weights_.size(); ++id) {
      sum += weights_[id];
      if (sum > target) return static_cast<int32_t>(id);
    }
  }
  // The product of the largest u and the total was rounded up to the total.
  size_t last_possible = weights_.size() - 1;
  while (!(weights_[last_possible] > 0)) --last_possible;
  return static_cast<int32_t>(last_possible);
}

int32_t Sampler::DrawFromCandidates(double u) const {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  const double target = u * total;
  double sum = 0;
  int32_t last_possible = -1;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.weight;
    if (sum > target) return candidate.id;
    if (candidate.weight > 0) last_possible = candidate.id;
  }
  // As in DrawFromAll.
  return last_possible;
}

void Sampler::Weigh(float largest, float temperature) {
  std::array<float, kBlock> logits;
  std::array<float, kBlock> weights;
  for (size_t first = 0; first < candidates_.size(); first += kBlock) {
    const size_t count = std::min(kBlock, candidates_.size() - first);
    for (size_t i = 0; i < count; ++i) logits[i] = candidates_[first + i].logit;
    VocabularyExp(std::span(logits).first(count), largest, temperature,
                  std::span(weights).first(count));
    for (size_t i = 0; i < count; ++i)
      candidates_[first + i].weight = weights[i];
  }
}

// What weighs less than an even share of the rest is not in the nucleus, since
// all of that together weighs less than the rest. Leaves few where a few are
// likely.
void Sampler::GatherHopeful(std::span<const float> logits, double total,
                            double target) {
  const auto share =
      static_cast<float>((total - target) / static_cast<double>(vocab_size_));
  float cut = kInfinity;
  for (int32_t id = 0; id < vocab_size_; ++id)
    if (weights_[id] >= share) cut = std::min(cut, logits[id]);
  const auto gather = [&](float least) {
    candidates_.clear();
    for (int32_t id = 0; id < vocab_size_; ++id)
      if (logits[id] >= least)
        candidates_.push_back({id, logits[id] + 0.0f, weights_[id]});
  };
  gather(cut);
  // Rounding: a close call.
  if (SumFrom(-kInfinity).weight < target) gather(-kInfinity);
}

// The nucleus is the shortest list of best candidates (by logit, then id) whose
// weights, summed in id order, reach top_p of the whole, `target`. Such sums
// never fall when a candidate is added, since rounding keeps order; so the end
// of the list may be found by bisection: first its last logit, then, among
// equals, its last id. All candidates together reach the target.
void Sampler::KeepTopP(double target) {
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
