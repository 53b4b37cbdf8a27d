#include "tests/bench/products_bench_bank.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/bf16.h"

namespace phalanx {
namespace {

constexpr int64_t kHidden = 2048;
constexpr int64_t kExperts = 256;
constexpr int64_t kPerToken = 8;
constexpr int64_t kWidth = 512;
constexpr int64_t kVocabulary = 248320;
constexpr int64_t kMixerOutputs = 12288;
constexpr int64_t kMixerWidth = 4096;
constexpr int64_t kMaxTokens = 512;
constexpr int64_t kMaxHeadTokens = 32;
// Routings of a number of tokens, taken in turn.
constexpr int64_t kRoutings = 16;

template <typename T>
T ValueOrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "products_bench: %s\n",
               value.status().ToString().c_str());
  std::exit(1);
}

std::vector<uint16_t> RandomBf16(int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<uint16_t> values(count);
  for (uint16_t& v : values) v = F32ToBf16(uniform(random));
  return values;
}

Tensor Vector(std::vector<int32_t>& data) {
  return MakeTensor(data.data(), DType::kI32,
                    static_cast<int64_t>(data.size()));
}

}  // namespace

// Tokens that choose their experts uniformly: the worst case for caches.
struct ProductBank::Routes {
  std::vector<int32_t> expert, offsets, order;
  std::vector<float> weight;
  int64_t tokens = 0;

  Routes(int64_t count, uint32_t seed) : tokens(count) {
    std::mt19937 random(seed);
    std::vector<int32_t> all(kExperts);
    std::iota(all.begin(), all.end(), 0);
    for (int64_t t = 0; t < tokens; ++t) {
      std::shuffle(all.begin(), all.end(), random);
      std::vector<int32_t> chosen(all.begin(), all.begin() + kPerToken);
      std::sort(chosen.begin(), chosen.end());
      expert.insert(expert.end(), chosen.begin(), chosen.end());
    }
    weight.assign(expert.size(), 1.0f / kPerToken);
    order.resize(expert.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [this](int32_t a, int32_t b) {
      return expert[a] < expert[b];
    });
    offsets.assign(kExperts + 1, 0);
    for (const int32_t e : expert) ++offsets[e + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  }

  int64_t touched() const {
    int64_t count = 0;
    for (int64_t e = 0; e < kExperts; ++e)
      count += offsets[e + 1] > offsets[e] ? 1 : 0;
    return count;
  }

  Routing View() {
    return {MakeTensor(expert.data(), DType::kI32, tokens, kPerToken),
            MakeTensor(weight.data(), DType::kF32, tokens, kPerToken),
            Vector(offsets), Vector(order)};
  }
};

ProductBank::ProductBank(Backend& backend)
    : backend_(backend),
      random_(RandomBf16(kMixerOutputs * kHidden)),
      out_(std::max(kMaxTokens * kMixerOutputs, kMaxHeadTokens * kVocabulary)) {
  dense_ = Weights(6, {.rows = kMixerOutputs, .cols = kHidden});
  mixed_ = Weights(
      12, {.rows = kHidden, .cols = kMixerWidth, .slices = kContractionSlices});
  router_ = Weights(128, {.rows = kExperts, .cols = kHidden});
  small_ = Weights(512, {.rows = 64, .cols = kHidden});
  head_ = Weights(1, {.rows = kVocabulary, .cols = kHidden});
  experts_gate_up_ = Weight({.count = kExperts,
                             .rows = 2 * kWidth,
                             .cols = kHidden,
                             .layout = WeightLayout::kGateUp});
  const WeightShape down = {
      .rows = kHidden, .cols = kWidth, .slices = kContractionSlices};
  const WeightShape half = {
      .rows = kHidden, .cols = kWidth / 2, .slices = kContractionSlices / 2};
  const auto of_all = [](WeightShape shape) {
    shape.count = kExperts;
    return shape;
  };
  experts_down_ = Weight(of_all(down));
  shared_down_ = Weight(down);
  half_down_ = Weight(of_all(half));
  half_shared_down_ = Weight(half);

  for (const int64_t tokens : {1, 8, 32, 128, 512})
    AddMatMul("dense 12288x2048", dense_, tokens, 0);
  for (const int64_t tokens : {1, 8, 32, 512})
    AddMatMul("sliced 2048x4096", mixed_, tokens, kContractionSlices);
  for (const int64_t tokens : {1, 8, 32})
    AddMatMul("head 248320x2048", head_, tokens, 0);
  for (const int64_t tokens : {1, 8, 512})
    AddMatMul("router 256x2048", router_, tokens, 0);
  for (const int64_t tokens : {1, 512})
    AddMatMul("small 64x2048", small_, tokens, 0);
  for (const int64_t tokens : {1, 8, 32, 128, 512}) AddExpertsGateUp(tokens);
  for (const int64_t tokens : {1, 8, 32, 128, 512})
    AddExpertsDown("experts down", tokens, experts_down_, shared_down_,
                   kContractionSlices);
  for (const int64_t tokens : {1, 32, 512})
    AddExpertsDown("experts down, TP 2", tokens, half_down_, half_shared_down_,
                   kContractionSlices / 2);
}

PackedWeight ProductBank::Weight(const WeightShape& shape) {
  PackedWeight w = ValueOrExit(backend_.AllocateWeight(
      shape, MemoryComponent::kActivations, "weights of the bench"));
  const int64_t rows = static_cast<int64_t>(random_.size()) / shape.cols;
  if (shape.rows <= rows) {
    for (int64_t i = 0; i < shape.count; ++i)
      backend_.PackWeight(random_.data(), i, w);
  } else {
    std::vector<uint16_t> host(shape.rows * shape.cols);
    for (size_t i = 0; i < host.size(); ++i)
      host[i] = random_[i % random_.size()];
    backend_.PackWeight(host.data(), 0, w);
  }
  return w;
}

std::vector<PackedWeight> ProductBank::Weights(int64_t count,
                                               const WeightShape& shape) {
  std::vector<PackedWeight> weights;
  for (int64_t i = 0; i < count; ++i) weights.push_back(Weight(shape));
  return weights;
}

// `slices` 0: a MatMul.
void ProductBank::AddMatMul(const std::string& name,
                            const std::vector<PackedWeight>& weights,
                            int64_t tokens, int slices) {
  const PackedWeight& first = weights.front();
  const double elements = static_cast<double>(first.rows * first.cols);
  const Tensor x = MakeTensor(random_.data(), DType::kBf16, tokens, first.cols);
  const Tensor y = MakeTensor(out_.data(), DType::kF32, tokens, first.rows);
  cases_.push_back(
      {name, tokens, 2 * elements, 2 * elements * static_cast<double>(tokens),
       [&weights, slices, x, y](Ops& ops, int64_t turn) {
         const PackedWeight& w =
             weights[turn % static_cast<int64_t>(weights.size())];
         slices == 0 ? ops.MatMul(x, w, y) : ops.MatMulSliced(x, w, slices, y);
       }});
}

ProductBank::RouteList ProductBank::RoutesOf(int64_t tokens) {
  auto routes = std::make_shared<std::vector<Routes>>();
  for (uint32_t i = 0; i < kRoutings; ++i) routes->emplace_back(tokens, i);
  return routes;
}

// Experts that a routing touches, in the mean.
double ProductBank::Touched(const RouteList& routes) {
  double touched = 0;
  for (const Routes& r : *routes) touched += static_cast<double>(r.touched());
  return touched / static_cast<double>(routes->size());
}

void ProductBank::AddExpertsGateUp(int64_t tokens) {
  const RouteList routes = RoutesOf(tokens);
  const double elements = 2.0 * kWidth * kHidden;
  const Tensor x = MakeTensor(random_.data(), DType::kBf16, tokens, kHidden);
  const Tensor hidden =
      MakeTensor(out_.data(), DType::kBf16, tokens * kPerToken, kWidth);
  cases_.push_back({"experts gate_up", tokens, Touched(routes) * elements * 2,
                    2 * elements * static_cast<double>(tokens * kPerToken),
                    [this, routes, x, hidden](Ops& ops, int64_t turn) {
                      ops.ExpertsGateUp(x, experts_gate_up_,
                                        (*routes)[turn % kRoutings].View(),
                                        hidden);
                    }});
}

void ProductBank::AddExpertsDown(const std::string& name, int64_t tokens,
                                 const PackedWeight& down,
                                 const PackedWeight& shared, int slices) {
  const RouteList routes = RoutesOf(tokens);
  const double elements = static_cast<double>(down.rows * down.cols);
  uint16_t* in = random_.data();
  const Tensor hidden =
      MakeTensor(in, DType::kBf16, tokens * kPerToken, down.cols);
  const Tensor shared_hidden =
      MakeTensor(in + hidden.elements(), DType::kBf16, tokens, down.cols);
  const Tensor gate = MakeTensor(in, DType::kBf16, tokens, 1);
  const Tensor y = MakeTensor(out_.data(), DType::kF32, tokens, kHidden);
  cases_.push_back(
      {name, tokens, (Touched(routes) + 1) * elements * 2,
       2 * elements * static_cast<double>(tokens * (kPerToken + 1)),
       [=, &down, &shared](Ops& ops, int64_t turn) {
         ops.ExpertsDown(hidden, down, (*routes)[turn % kRoutings].View(),
                         shared_hidden, shared, gate, slices, y);
       }});
}

}  // namespace phalanx
