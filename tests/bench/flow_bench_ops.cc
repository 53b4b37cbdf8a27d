#include "tests/bench/flow_bench_ops.h"

namespace phalanx {
namespace {

// Layers' worth of `bytes`: more than a cache holds.
int64_t BankLayers(int64_t bytes) {
  return std::clamp<int64_t>(kBankBytes / bytes, 1, kLayers);
}

// Layer `layer` of a bank whose layers are rows [per_layer * layer ...].
Tensor Layer(Tensor bank, int64_t per_layer, int64_t layer) {
  return Rows(bank, layer % (bank.dims[0] / per_layer) * per_layer, per_layer);
}

}  // namespace

Flow::Flow(Memory& memory, const Case& shape)
    : m_(memory), case_(shape), T_(shape.tokens) {
  MakeSequences();
  AddDelta();
  AddAttention();
  AddRest();
}

void Flow::MakeSequences() {
  const int64_t S = case_.sequences();
  std::vector<int32_t> first = {0}, slots, past, table;
  for (int64_t s = 0; s < S; ++s) {
    first.push_back(static_cast<int32_t>((s + 1) * case_.rows()));
    slots.push_back(static_cast<int32_t>(s));
    past.push_back(static_cast<int32_t>(case_.context));
    for (int64_t b = 0; b < case_.blocks(); ++b)
      table.push_back(static_cast<int32_t>(s * case_.blocks() + b));
  }
  sequences_ = {m_.Ints(first), m_.Ints(past), m_.Ints(slots), m_.Ints(table)};
  Tensor& blocks = sequences_.block_table;
  blocks = MakeTensor(blocks.data, DType::kI32, S, case_.blocks());
}

void Flow::AddDelta() {
  const int64_t S = case_.sequences();
  const int64_t values = kValueHeads * kDeltaSize;
  const int64_t state_bytes = S * values * kDeltaSize * 4;
  const Tensor states = m_.Make(DType::kF32, BankLayers(state_bytes) * S,
                                kValueHeads, kDeltaSize, kDeltaSize);
  const int64_t window = (kConvWidth - 1) * kChannels;
  const Tensor windows =
      m_.Make(DType::kBf16, kLayers * S, kConvWidth - 1, kChannels);
  const Tensor fused =
      m_.Make(DType::kBf16, T_, kChannels + values + 2 * kValueHeads);
  const auto [mixed, z, b, a] =
      SplitColumns<4>(fused, {kChannels, values, kValueHeads, kValueHeads});
  const Tensor taps = m_.Make(DType::kF32, kChannels, kConvWidth);
  const Tensor conv = m_.Make(DType::kF32, T_, kChannels);
  const Tensor spare = m_.Make(DType::kF32, T_, kChannels);
  const int64_t keys = kKeyHeads * kDeltaSize;
  const auto [q, k, v] = SplitColumns<3>(conv, {keys, keys, values});
  const Tensor rate = m_.Make(DType::kF32, kValueHeads);
  const Tensor g = m_.Make(DType::kF32, T_, kValueHeads);
  const Tensor beta = m_.Make(DType::kF32, T_, kValueHeads);
  const Tensor delta = m_.Make(DType::kF32, T_, values);
  const Tensor normed = m_.Make(DType::kBf16, T_, values);
  const Tensor w = m_.Make(DType::kF32, kDeltaSize);
  const double rows = static_cast<double>(T_);
  Ops& ops = m_.ops();
  Add({"ConvSilu", kDeltaLayers, 0, S * window * 2.0 * 2,
       rows * kChannels * (2 + 4) + kChannels * kConvWidth * 4.0,
       rows * kChannels * kConvWidth * 2, 0, [=, this, &ops](int64_t i) {
         ops.ConvSilu(mixed, taps, sequences_, Layer(windows, S, i), spare);
       }});
  Add({"L2Norm", 2 * kDeltaLayers, 0, 0, rows * keys * 8, rows * keys * 4, 0,
       [=, &ops](int64_t) {
         ops.L2Norm(Heads(q, kKeyHeads), 0.9f, Heads(q, kKeyHeads));
       }});
  ops.L2Norm(Heads(k, kKeyHeads), 1.0f, Heads(k, kKeyHeads));
  Add({"GdnGates", kDeltaLayers, 0, 0, rows * kValueHeads * 12,
       rows * kValueHeads * 100, 0,
       [=, &ops](int64_t) { ops.GdnGates(a, b, rate, rate, g, beta); }});
  Add({"GatedDelta", kDeltaLayers, 0, 2.0 * state_bytes,
       rows * (kChannels + values) * 4, rows * values * kDeltaSize * 8, 0,
       [=, this, &ops](int64_t i) {
         ops.GatedDelta(Heads(q, kKeyHeads), Heads(k, kKeyHeads),
                        Heads(v, kValueHeads), g, beta, sequences_,
                        Layer(states, S, i), Heads(delta, kValueHeads));
       }});
  Add({"GatedRmsNorm", kDeltaLayers, 0, 0, rows * values * 8,
       rows * values * 40, 0, [=, &ops](int64_t) {
         ops.GatedRmsNorm(Heads(delta, kValueHeads), Heads(z, kValueHeads), w,
                          1e-6f, Heads(normed, kValueHeads));
       }});
}

void Flow::AddAttention() {
  const int64_t S = case_.sequences();
  const int64_t blocks = S * case_.blocks();
  const int64_t queries = kQueryHeads * kHeadSize;
  const int64_t pairs = kKvHeads * kHeadSize;
  const int64_t bytes = blocks * kKvBlockTokens * pairs * 2;
  const int64_t layers = BankLayers(2 * bytes);
  const Tensor keys = m_.Make(DType::kBf16, layers * blocks, kKvHeads,
                              kKvBlockTokens, kHeadSize);
  const Tensor values = m_.Make(DType::kBf16, layers * blocks, kKvHeads,
                                kKvBlockTokens, kHeadSize);
  const Tensor fused = m_.Make(DType::kBf16, T_, 2 * queries + 2 * pairs);
  const auto [q, gate, k, v] =
      SplitColumns<4>(fused, {queries, queries, pairs, pairs});
  const Tensor out = m_.Make(DType::kF32, T_, queries);
  const Tensor gated = m_.Make(DType::kBf16, T_, queries);
  const Tensor w = m_.Make(DType::kF32, kHeadSize);
  const Tensor frequencies = m_.Make(DType::kF32, kRotaryPairs);
  std::vector<int32_t> at, place;
  for (int64_t t = 0; t < T_; ++t) {
    const int64_t position = case_.context + t % case_.rows();
    const int64_t first = t / case_.rows() * case_.blocks() * kKvBlockTokens;
    at.push_back(static_cast<int32_t>(position));
    place.push_back(static_cast<int32_t>(first + position));
  }
  const Tensor positions = m_.Ints(at), places = m_.Ints(place);
  const double rows = static_cast<double>(T_);
  Ops& ops = m_.ops();
  const Tensor heads = Heads(q, kQueryHeads), kv_heads = Heads(k, kKvHeads);
  Add({"RmsNorm q", kAttentionLayers, 0, 0, rows * queries * 4,
       rows * queries * 6, 0,
       [=, &ops](int64_t) { ops.RmsNorm(heads, w, 1e-6f, heads); }});
  Add({"RmsNorm k", kAttentionLayers, 0, 0, rows * pairs * 4, rows * pairs * 6,
       0, [=, &ops](int64_t) { ops.RmsNorm(kv_heads, w, 1e-6f, kv_heads); }});
  Add({"Rope q, k", kAttentionLayers, 0, 0,
       rows * (kQueryHeads + kKvHeads) * kRotaryPairs * 8,
       rows * kRotaryPairs * (2 * 50 + (kQueryHeads + kKvHeads) * 8.0), 0,
       [=, &ops](int64_t) {
         ops.Rope(positions, frequencies, heads);
         ops.Rope(positions, frequencies, kv_heads);
       }});
  Add({"StoreKv", kAttentionLayers, 0, rows * pairs * 8, rows * pairs * 4, 0, 0,
       [=, &ops](int64_t i) {
         ops.StoreKv(kv_heads, Heads(v, kKvHeads), places,
                     Layer(keys, blocks, i), Layer(values, blocks, i));
       }});
  const double seen = static_cast<double>(case_.context) +
                      (static_cast<double>(case_.rows()) + 1) / 2;
  Add({"PagedAttention", kAttentionLayers,
       2.0 * static_cast<double>(S * case_.positions() * pairs * 2), 0,
       rows * queries * 6, 0, rows * seen * queries * 4,
       [=, this, &ops](int64_t i) {
         ops.PagedAttention(heads, Layer(keys, blocks, i),
                            Layer(values, blocks, i), sequences_, 0.0625f,
                            Heads(out, kQueryHeads));
       }});
  Add({"MulSigmoid", kAttentionLayers, 0, 0, rows * queries * 8,
       rows * queries * 40, 0,
       [=, &ops](int64_t) { ops.MulSigmoid(out, gate, gated); }});
}

void Flow::AddRest() {
  const Tensor h = m_.Make(DType::kBf16, T_, kHidden);
  const Tensor delta = m_.Make(DType::kBf16, T_, kHidden);
  const Tensor x = m_.Make(DType::kBf16, T_, kHidden);
  const Tensor partial = m_.Make(DType::kF32, T_, kHidden);
  const Tensor w = m_.Make(DType::kF32, kHidden);
  const Tensor logits = m_.Make(DType::kF32, T_, kExperts);
  const Routing routing = {
      .expert = m_.Make(DType::kI32, T_, kExpertsPerToken),
      .weight = m_.Make(DType::kF32, T_, kExpertsPerToken),
      .offsets = m_.Make(DType::kI32, kExperts + 1),
      .order = m_.Make(DType::kI32, T_ * kExpertsPerToken)};
  const double elements = static_cast<double>(T_ * kHidden);
  Ops& ops = m_.ops();
  Add({"RmsNorm h", 2 * kLayers, 0, 0, elements * 4, elements * 6, 0,
       [=, &ops](int64_t) { ops.RmsNorm(h, w, 1e-6f, x); }});
  Add({"Round", 2 * kLayers, 0, 0, elements * 6, elements * 2, 0,
       [=, &ops](int64_t) { ops.Round(partial, delta); }});
  Add({"Add", 2 * kLayers, 0, 0, elements * 6, elements * 2, 0,
       [=, &ops](int64_t) { ops.Add(x, delta, h); }});
  Add({"Route", kLayers, 0, 0, static_cast<double>(T_) * kExperts * 4,
       static_cast<double>(T_) * kExperts * 40, 0,
       [=, &ops](int64_t) { ops.Route(logits, true, routing); }});
}

}  // namespace phalanx
