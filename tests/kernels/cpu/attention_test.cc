#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/sequences.h"
#include "tests/kernels/cpu/array.h"

namespace phalanx {
namespace {

struct Shape {
  int64_t heads, kv_heads, head_size;
  float scale() const { return 1 / std::sqrt(static_cast<float>(head_size)); }
};

const Shape kShapes[] = {{6, 2, 24}, {8, 2, 32}, {4, 4, 16}, {10, 1, 40}};
constexpr Shape kPlain = {8, 2, 32};

// Some rows of one of the world's sequences.
struct Stretch {
  int64_t source;
  int32_t past;
  int32_t rows;
};

// Sequences with all their queries, keys and values; the keys and values lie in
// the paged caches, in scattered blocks, NaN wherever no token is.
class World {
 public:
  World(const Shape& shape, const std::vector<int64_t>& lengths, uint32_t seed)
      : shape_(shape),
        blocks_(CountBlocks(lengths)),
        keys_(blocks_, shape.kv_heads, kKvBlockTokens, shape.head_size),
        values_(blocks_, shape.kv_heads, kKvBlockTokens, shape.head_size) {
    Random random(seed);
    constexpr uint16_t kNan = 0x7fc0;
    std::fill(keys_.values().begin(), keys_.values().end(), kNan);
    std::fill(values_.values().begin(), values_.values().end(), kNan);
    std::vector<int32_t> free(blocks_);
    for (int64_t b = 0; b < blocks_; ++b) free[b] = static_cast<int32_t>(b);
    for (int64_t b = blocks_ - 1; b > 0; --b)
      std::swap(free[b], free[random.Below(b + 1)]);
    for (const int64_t length : lengths) {
      queries_.push_back(random.Bf16(2, length, shape.heads, shape.head_size));
      const auto k = random.Bf16(1, length, shape.kv_heads, shape.head_size);
      const auto v = random.Bf16(1, length, shape.kv_heads, shape.head_size);
      const int64_t count = (length + kKvBlockTokens - 1) / kKvBlockTokens;
      tables_.emplace_back(free.end() - count, free.end());
      free.resize(free.size() - count);
      Store(k, v, length);
    }
  }

  // y of the stretches, one after another.
  std::vector<float> Run(const std::vector<Stretch>& stretches, Isa isa,
                         int threads,
                         KernelFamily family = KernelFamily::kFma) const {
    const int64_t width = shape_.heads * shape_.head_size;
    std::vector<int32_t> first = {0}, past;
    size_t most_blocks = 0;
    for (const Stretch& s : stretches) {
      first.push_back(first.back() + s.rows);
      past.push_back(s.past);
      most_blocks = std::max(most_blocks, tables_[s.source].size());
    }
    Array<uint16_t> q(first.back(), shape_.heads, shape_.head_size);
    Array<int32_t> table(static_cast<int64_t>(stretches.size()),
                         static_cast<int64_t>(most_blocks));
    for (size_t i = 0; i < stretches.size(); ++i) {
      const Stretch& s = stretches[i];
      std::copy_n(&queries_[s.source][s.past * width], s.rows * width,
                  &q[first[i] * width]);
      std::copy(tables_[s.source].begin(), tables_[s.source].end(),
                &table[i * most_blocks]);
    }
    const Array<int32_t> first_row = Ints(first), pasts = Ints(past);
    const Sequences sequences = {first_row, pasts, Tensor(), table};
    Array<float> y(first.back(), shape_.heads, shape_.head_size);
    ThreadPool pool({.threads = threads, .cpus = {}, .spin = false});
    CpuTable(isa, family, /*vnni=*/false)
        .paged_attention(pool, q, keys_, values_, sequences, shape_.scale(), y);
    return y.values();
  }

  // Checks rows `first` .. of sequence s against the softmax in doubles.
  void ExpectDefinition(int64_t s, int64_t first,
                        const std::vector<float>& y) const {
    const int64_t size = shape_.head_size;
    const int64_t group = shape_.heads / shape_.kv_heads;
    const int64_t rows = static_cast<int64_t>(y.size()) / (shape_.heads * size);
    for (int64_t i = 0; i < rows * shape_.heads; ++i) {
      const int64_t position = first + i / shape_.heads;
      const int64_t h = i % shape_.heads;
      const uint16_t* q = &queries_[s][(position * shape_.heads + h) * size];
      std::vector<double> p(position + 1);
      double sum = 0;
      for (int64_t j = 0; j <= position; ++j) {
        const uint16_t* k = &keys_[At(s, j, h / group)];
        double score = 0;
        for (int64_t d = 0; d < size; ++d)
          score += double(Bf16ToF32(q[d])) * Bf16ToF32(k[d]);
        sum += p[j] = std::exp(score * shape_.scale());
      }
      for (int64_t d = 0; d < size; ++d) {
        double expected = 0, magnitude = 0;
        for (int64_t j = 0; j <= position; ++j) {
          const double v = Bf16ToF32(values_[At(s, j, h / group) + d]);
          expected += p[j] / sum * v;
          magnitude += p[j] / sum * std::abs(v);
        }
        // Each p is rounded to bf16, by 2^-8 of itself at most; all of f32's
        // roundings together stay below 2^-16 of the terms.
        ASSERT_NEAR(y[i * size + d], expected, magnitude * (0x1p-8 + 0x1p-16));
      }
    }
  }

 private:
  static int64_t CountBlocks(const std::vector<int64_t>& lengths) {
    int64_t blocks = 3;  // Some that no sequence uses.
    for (const int64_t length : lengths)
      blocks += (length + kKvBlockTokens - 1) / kKvBlockTokens;
    return blocks;
  }

  // Where the cache holds a position of a sequence.
  int64_t At(int64_t s, int64_t position, int64_t head) const {
    const int64_t block = tables_[s][position / kKvBlockTokens];
    return ((block * shape_.kv_heads + head) * kKvBlockTokens +
            position % kKvBlockTokens) *
           shape_.head_size;
  }

  // Puts the newest sequence's keys and values where its table says.
  void Store(const Array<uint16_t>& k, const Array<uint16_t>& v,
             int64_t length) {
    Array<int32_t> places(length);
    for (int64_t t = 0; t < length; ++t)
      places[t] = static_cast<int32_t>(tables_.back()[t / kKvBlockTokens] *
                                           kKvBlockTokens +
                                       t % kKvBlockTokens);
    ThreadPool pool({.threads = 1, .cpus = {}, .spin = false});
    Kernels(Isa::kPortable).store_kv(pool, k, v, places, keys_, values_);
  }

  Shape shape_;
  int64_t blocks_;
  Array<uint16_t> keys_, values_;
  std::vector<Array<uint16_t>> queries_;
  std::vector<std::vector<int32_t>> tables_;
};

std::vector<float> Slice(const std::vector<float>& y, const Shape& shape,
                         int64_t first, int64_t rows) {
  const int64_t width = shape.heads * shape.head_size;
  return {y.begin() + first * width, y.begin() + (first + rows) * width};
}

TEST(PagedAttention, EqualsTheDefinitionInDoubles) {
  for (const Shape& shape : kShapes) {
    const World world(shape, {90}, 1);
    for (const Isa isa : TestIsas())
      world.ExpectDefinition(0, 0, world.Run({{0, 0, 90}}, isa, 1));
  }
}

TEST(PagedAttention, EqualsTheDefinitionAcrossSegments) {
  const World world(kPlain, {800}, 2);
  for (const Isa isa : TestIsas())
    for (const int32_t past : {255, 256, 257, 511, 700})
      world.ExpectDefinition(0, past, world.Run({{0, past, 5}}, isa, 1));
}

TEST(PagedAttention, ServesHeadsOf256) {
  const World world({8, 1, 256}, {140}, 3);
  for (const Isa isa : TestIsas())
    world.ExpectDefinition(0, 100, world.Run({{0, 100, 40}}, isa, 1));
}

TEST(PagedAttention, TheFirstTokenReadsItsOwnValue) {
  const World world(kPlain, {1}, 4);
  for (const Isa isa : TestIsas())
    world.ExpectDefinition(0, 0, world.Run({{0, 0, 1}}, isa, 1));
}

// The cache holds the tokens after each row too, so this also shows that no row
// looks ahead.
TEST(PagedAttention, BitsDoNotDependOnTheCutIntoSteps) {
  for (const Shape& shape : {Shape{6, 2, 24}, Shape{2, 2, 16}}) {
    const World world(shape, {330}, 5);
    for (const Isa isa : TestIsas()) {
      const auto whole = world.Run({{0, 0, 330}}, isa, 1);
      int32_t past = 0;
      for (const int32_t rows : {1, 2, 61, 1, 16, 175, 1, 73}) {
        const auto part = world.Run({{0, past, rows}}, isa, 1);
        EXPECT_TRUE(SameBits(part, Slice(whole, shape, past, rows)))
            << "rows " << rows << " from " << past;
        past += rows;
      }
      EXPECT_EQ(past, 330);
    }
  }
}

TEST(PagedAttention, BitsDoNotDependOnTheNeighbours) {
  const World world(kPlain, {300, 70, 515}, 6);
  for (const Isa isa : TestIsas()) {
    const auto together =
        world.Run({{1, 69, 1}, {0, 280, 20}, {2, 0, 0}, {2, 514, 1}}, isa, 1);
    EXPECT_TRUE(SameBits(Slice(together, kPlain, 1, 20),
                         world.Run({{0, 280, 20}}, isa, 1)));
    EXPECT_TRUE(SameBits(Slice(together, kPlain, 21, 1),
                         world.Run({{2, 514, 1}}, isa, 1)));
  }
}

TEST(PagedAttention, BitsDoNotDependOnTheThreadsThatShareSegments) {
  const World world(kPlain, {2000}, 7);
  for (const Isa isa : TestIsas()) {
    const auto one = world.Run({{0, 1990, 6}}, isa, 1);
    for (const int threads : {2, 3, 7})
      EXPECT_TRUE(SameBits(world.Run({{0, 1990, 6}}, isa, threads), one))
          << threads;
  }
}

TEST(PagedAttention, BitsDoNotDependOnTheThreadsThatShareTiles) {
  const World world(kPlain, {400}, 8);
  for (const Isa isa : TestIsas())
    EXPECT_TRUE(SameBits(world.Run({{0, 250, 150}}, isa, 2),
                         world.Run({{0, 250, 150}}, isa, 1)));
}

TEST(PagedAttention, BitsAreTheSameInEveryInstructionSet) {
  for (const Shape& shape : kShapes) {
    const World world(shape, {600}, 9);
    const auto portable = world.Run({{0, 580, 20}}, Isa::kPortable, 1);
    for (const Isa isa : TestIsas())
      EXPECT_TRUE(SameBits(world.Run({{0, 580, 20}}, isa, 1), portable));
  }
}

class Bf16DotAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (!Supports(DetectCpu(), Isa::kAvx512, KernelFamily::kBf16Dot))
      GTEST_SKIP() << "needs AVX512_BF16";
  }
  static std::vector<float> Run(const World& world, const Stretch& stretch) {
    return world.Run({stretch}, Isa::kAvx512, 1, KernelFamily::kBf16Dot);
  }
};

TEST_F(Bf16DotAttention, EqualsTheDefinitionInDoubles) {
  for (const Shape& shape : kShapes) {
    const World world(shape, {91}, 1);
    world.ExpectDefinition(0, 0, Run(world, {0, 0, 91}));
  }
}

// An even position ends with a pair of which one value is absent, NaN here, or
// belongs to a later row.
TEST_F(Bf16DotAttention, BitsDoNotDependOnTheCutIntoSteps) {
  for (const Shape& shape : {Shape{6, 2, 24}, Shape{2, 2, 16}, kPlain}) {
    const World world(shape, {331}, 5);
    const auto whole = Run(world, {0, 0, 331});
    int32_t past = 0;
    for (const int32_t rows : {1, 2, 61, 1, 16, 175, 1, 74}) {
      EXPECT_TRUE(SameBits(Run(world, {0, past, rows}),
                           Slice(whole, shape, past, rows)))
          << "rows " << rows << " from " << past;
      past += rows;
    }
    EXPECT_EQ(past, 331);
  }
}

TEST(StoreKv, PutsEachHeadAtItsPlaceAndTouchesNothingElse) {
  Random random(10);
  const auto k = random.Bf16(1, 3, 2, 24);
  const auto v = random.Bf16(1, 3, 2, 24);
  const Array<int32_t> places = Ints({130, 5, 63});
  for (const Isa isa : TestIsas()) {
    ThreadPool pool({.threads = 1, .cpus = {}, .spin = false});
    Array<uint16_t> keys(3, 2, kKvBlockTokens, 24);
    Array<uint16_t> values(3, 2, kKvBlockTokens, 24);
    Kernels(isa).store_kv(pool, k, v, places, keys, values);
    Array<uint16_t> wanted_keys(3, 2, kKvBlockTokens, 24);
    Array<uint16_t> wanted_values(3, 2, kKvBlockTokens, 24);
    for (int64_t i = 0; i < 3 * 2 * 24; ++i) {
      const int64_t t = i / 48, h = i / 24 % 2, d = i % 24;
      const int64_t block = places[t] / 64, place = places[t] % 64;
      const int64_t at = ((block * 2 + h) * 64 + place) * 24 + d;
      wanted_keys[at] = k[i];
      wanted_values[at] = v[i];
    }
    EXPECT_EQ(keys.values(), wanted_keys.values());
    EXPECT_EQ(values.values(), wanted_values.values());
  }
}

}  // namespace
}  // namespace phalanx
