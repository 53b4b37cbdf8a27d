#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/sequences.h"
#include "tests/kernels/cpu/array.h"

namespace phalanx {
namespace {

struct Shape {
  int64_t key_heads, heads, key_size, value_size;
};

constexpr Shape kSmall = {2, 6, 24, 24};
const Shape kShapes[] = {
    kSmall, {4, 8, 16, 16}, {1, 2, 128, 128}, {1, 1, 48, 20}};

// Unit vectors times `scale`, [length, heads, size].
Array<float> UnitRows(Random& random, float scale, int64_t length,
                      int64_t heads, int64_t size) {
  Array<float> x = random.F32(1, length, heads, size);
  for (int64_t r = 0; r < length * heads; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += x[r * size + i] * x[r * size + i];
    for (int64_t i = 0; i < size; ++i)
      x[r * size + i] *= scale / static_cast<float>(std::sqrt(sum));
  }
  return x;
}

// One long sequence's inputs.
struct Input {
  Input(const Shape& s, int64_t length, uint32_t seed)
      : random(seed),
        q(UnitRows(random, 1 / std::sqrt(float(s.key_size)), length,
                   s.key_heads, s.key_size)),
        k(UnitRows(random, 1, length, s.key_heads, s.key_size)),
        v(random.F32(1, length, s.heads, s.value_size)),
        g(random.F32(1, length, s.heads)),
        beta(random.F32(1, length, s.heads)) {
    for (float& value : g.values()) value = -std::abs(value) * 0.2f;
    for (float& value : beta.values()) value = 1 / (1 + std::exp(-value));
  }

  Random random;
  Array<float> q, k, v, g, beta;
};

struct Stretch {
  int64_t source;
  int32_t past;
  int32_t rows;
};

// States of garbage, on which steps may be run one after another.
class Runner {
 public:
  Runner(const Shape& shape, const std::vector<Input>& inputs, Isa isa,
         int threads)
      : shape_(shape),
        inputs_(inputs),
        table_(Kernels(isa)),
        pool_({.threads = threads, .cpus = {}, .spin = false}),
        state_(static_cast<int64_t>(inputs.size()) + 1, shape.heads,
               shape.value_size, shape.key_size) {
    std::fill(state_.values().begin(), state_.values().end(), NAN);
  }

  // One step; the sequence `source` lives in slot source + 1.
  std::vector<float> Step(const std::vector<Stretch>& stretches) {
    std::vector<int32_t> first = {0}, past, slot;
    for (const Stretch& s : stretches) {
      first.push_back(first.back() + s.rows);
      past.push_back(s.past);
      slot.push_back(static_cast<int32_t>(s.source + 1));
    }
    const int64_t rows = first.back();
    Array<float> q(rows, shape_.key_heads, shape_.key_size);
    Array<float> k(rows, shape_.key_heads, shape_.key_size);
    Array<float> v(rows, shape_.heads, shape_.value_size);
    Array<float> g(rows, shape_.heads), beta(rows, shape_.heads);
    Array<float> y(rows, shape_.heads, shape_.value_size);
    for (size_t i = 0; i < stretches.size(); ++i) {
      const Input& input = inputs_[stretches[i].source];
      const auto take = [&](const Array<float>& from, Array<float>& to) {
        const int64_t width = Tensor(to).row_elements();
        std::copy_n(&from[stretches[i].past * width], stretches[i].rows * width,
                    &to[first[i] * width]);
      };
      take(input.q, q);
      take(input.k, k);
      take(input.v, v);
      take(input.g, g);
      take(input.beta, beta);
    }
    const Array<int32_t> first_row = Ints(first), pasts = Ints(past),
                         slots = Ints(slot);
    const Sequences sequences = {first_row, pasts, slots, Tensor()};
    table_.gated_delta(pool_, q, k, v, g, beta, sequences, state_, y);
    return y.values();
  }

  // Of one sequence, as bits can be compared.
  std::vector<float> State(int64_t source) const {
    const int64_t size = Tensor(state_).row_elements();
    const auto begin = state_.values().begin() + (source + 1) * size;
    return {begin, begin + size};
  }

 private:
  Shape shape_;
  const std::vector<Input>& inputs_;
  const KernelTable& table_;
  ThreadPool pool_;
  Array<float> state_;
};

std::vector<Input> Inputs(const Shape& shape, int count, int64_t length) {
  std::vector<Input> inputs;
  for (int i = 0; i < count; ++i) inputs.emplace_back(shape, length, i + 1);
  return inputs;
}

// The recurrence as ops.h writes it, in doubles: decay, read, write, read.
std::vector<double> InDoubles(const Shape& s, const Input& in, int64_t length) {
  std::vector<double> y(length * s.heads * s.value_size);
  for (int64_t h = 0; h < s.heads; ++h) {
    const int64_t kh = h * s.key_heads / s.heads;
    for (int64_t j = 0; j < s.value_size; ++j) {
      std::vector<double> row(s.key_size, 0.0);
      for (int64_t t = 0; t < length; ++t) {
        const float* k = &in.k[(t * s.key_heads + kh) * s.key_size];
        const float* q = &in.q[(t * s.key_heads + kh) * s.key_size];
        const int64_t place = (t * s.heads + h) * s.value_size + j;
        double m = 0, out = 0;
        for (int64_t i = 0; i < s.key_size; ++i) {
          row[i] *= std::exp(double(in.g[t * s.heads + h]));
          m += row[i] * k[i];
        }
        const double delta = in.beta[t * s.heads + h] * (in.v[place] - m);
        for (int64_t i = 0; i < s.key_size; ++i) {
          row[i] += delta * k[i];
          out += row[i] * q[i];
        }
        y[place] = out;
      }
    }
  }
  return y;
}

TEST(GatedDelta, EqualsTheRecurrenceInDoubles) {
  constexpr int64_t kLength = 60;
  for (const Shape& shape : kShapes) {
    const std::vector<Input> inputs = Inputs(shape, 1, kLength);
    const std::vector<double> expected = InDoubles(shape, inputs[0], kLength);
    for (const Isa isa : TestIsas()) {
      const auto y = Runner(shape, inputs, isa, 1).Step({{0, 0, kLength}});
      // Values of order 1 written with strength below 1 into a state that
      // decays; each token adds a few ulp of f32.
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_NEAR(y[i], expected[i], kLength * 0x1p-23);
    }
  }
}

TEST(GatedDelta, BitsDoNotDependOnTheCutIntoSteps) {
  for (const Shape& shape : kShapes) {
    const std::vector<Input> inputs = Inputs(shape, 1, 40);
    for (const Isa isa : TestIsas()) {
      Runner whole_runner(shape, inputs, isa, 1);
      Runner cut_runner(shape, inputs, isa, 2);
      const auto whole = whole_runner.Step({{0, 0, 40}});
      std::vector<float> cut;
      for (const Stretch& s :
           {Stretch{0, 0, 1}, {0, 1, 1}, {0, 2, 17}, {0, 19, 21}}) {
        const auto part = cut_runner.Step({s});
        cut.insert(cut.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(SameBits(cut, whole));
      EXPECT_TRUE(SameBits(cut_runner.State(0), whole_runner.State(0)));
    }
  }
}

TEST(GatedDelta, BitsDoNotDependOnTheNeighbours) {
  const std::vector<Input> inputs = Inputs(kSmall, 3, 9);
  const int64_t width = kSmall.heads * kSmall.value_size;
  for (const Isa isa : TestIsas()) {
    const auto together =
        Runner(kSmall, inputs, isa, 1).Step({{2, 0, 3}, {1, 0, 9}, {0, 0, 1}});
    const auto alone = Runner(kSmall, inputs, isa, 1).Step({{1, 0, 9}});
    EXPECT_TRUE(SameBits(
        std::vector<float>(&together[3 * width], &together[12 * width]),
        alone));
  }
}

TEST(GatedDelta, AFreshSequenceReadsNoOldState) {
  const std::vector<Input> inputs = Inputs(kSmall, 1, 4);
  for (const Isa isa : TestIsas()) {
    Runner runner(kSmall, inputs, isa, 1);
    const auto first = runner.Step({{0, 0, 4}});
    EXPECT_TRUE(SameBits(runner.Step({{0, 0, 4}}), first));
  }
}

TEST(GatedDelta, BitsAreTheSameInEverySetOnAnyNumberOfThreads) {
  for (const Shape& shape : kShapes) {
    const std::vector<Input> inputs = Inputs(shape, 2, 30);
    std::vector<std::vector<float>> results;
    for (const Isa isa : TestIsas())
      for (const int threads : {1, 2})
        results.push_back(
            Runner(shape, inputs, isa, threads).Step({{0, 0, 30}, {1, 0, 5}}));
    for (const auto& result : results)
      EXPECT_TRUE(SameBits(result, results[0]));
  }
}

TEST(GdnGates, EqualTheDefinitionInDoubles) {
  constexpr int64_t kTokens = 30, kHeads = 19;
  Random random(1);
  const Array<uint16_t> a = random.Bf16(12, kTokens, kHeads);
  const Array<uint16_t> b = random.Bf16(4, kTokens, kHeads);
  const Array<float> a_log = random.F32(1, kHeads);
  const Array<float> bias = random.F32(1, kHeads);
  for (const auto& gates :
       EveryWay([&](const KernelTable&table, ThreadPool&pool) {
         Array<float> g(kTokens, kHeads), beta(kTokens, kHeads);
         table.gdn_gates(pool, a, b, a_log, bias, g, beta);
         std::vector<float> both = g.values();
         both.insert(both.end(), beta.values().begin(), beta.values().end());
         return both;
       })) {
    for (int64_t i = 0; i < kTokens * kHeads; ++i) {
      const int64_t h = i % kHeads;
      const double x = double(Bf16ToF32(a[i])) + bias[h];
      const double softplus = x > 20 ? x : std::log1p(std::exp(x));
      const double g = -std::exp(double(a_log[h])) * softplus;
      const double beta = 1 / (1 + std::exp(-double(Bf16ToF32(b[i]))));
      // The sum a + bias, up to 64, is rounded before exp.
      EXPECT_NEAR(gates[i], g, std::abs(g) * 0x1p-17);
      EXPECT_NEAR(gates[kTokens * kHeads + i], beta, beta * 0x1p-21);
    }
  }
}

TEST(GdnGates, BitsAreTheSameInEverySetOnAnyNumberOfThreads) {
  constexpr int64_t kTokens = 400, kHeads = 40;
  Random random(2);
  const Array<uint16_t> a = random.Bf16(8, kTokens, kHeads);
  const Array<float> a_log = random.F32(1, kHeads);
  const auto results = EveryWay([&](const KernelTable& table, ThreadPool& p) {
    Array<float> g(kTokens, kHeads), beta(kTokens, kHeads);
    table.gdn_gates(p, a, a, a_log, a_log, g, beta);
    g.values().insert(g.values().end(), beta.values().begin(),
                      beta.values().end());
    return g.values();
  });
  for (const auto& result : results) EXPECT_TRUE(SameBits(result, results[0]));
}

}  // namespace
}  // namespace phalanx
