#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/sequences.h"
#include "tests/kernels/cpu/array.h"

namespace phalanx {
namespace {

// A stretch of one sequence in a step: its rows, what came before, its slot.
struct Stretch {
  int64_t source;  // Which of the world's sequences.
  int32_t past;
  int32_t rows;
};

struct World {
  World(int64_t width, int64_t channels, int64_t count, int64_t length,
        uint32_t seed)
      : random(seed),
        width(width),
        channels(channels),
        w(random.F32(0.7f, channels, width)) {
    for (int64_t s = 0; s < count; ++s)
      x.push_back(random.Bf16(1, length, channels));
  }

  // An output row in doubles.
  double Expected(int64_t s, int64_t t, int64_t c) const {
    double sum = 0;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t row = t - (width - 1) + j;
      if (row >= 0) sum += double(w[c * width + j]) * Input(s, row, c);
    }
    return sum / (1 + std::exp(-sum));
  }
  double Input(int64_t s, int64_t t, int64_t c) const {
    return Bf16ToF32(x[s][t * channels + c]);
  }

  Random random;
  int64_t width, channels;
  Array<float> w;
  std::vector<Array<uint16_t>> x;
};

// A state of garbage, on which steps may be run one after another.
class Runner {
 public:
  Runner(const World& world, Isa isa, int threads)
      : world_(world),
        table_(Kernels(isa)),
        pool_({.threads = threads, .cpus = {}, .spin = false}),
        state_(static_cast<int64_t>(world.x.size()) + 1, world.width - 1,
               world.channels) {
    std::fill(state_.values().begin(), state_.values().end(), 0x7fc0);
  }

  // One step; the sequence `source` lives in slot source + 1.
  std::vector<float> Step(const std::vector<Stretch>& stretches) {
    const int64_t channels = world_.channels;
    std::vector<int32_t> first = {0}, past, slot;
    for (const Stretch& s : stretches) {
      first.push_back(first.back() + s.rows);
      past.push_back(s.past);
      slot.push_back(static_cast<int32_t>(s.source + 1));
    }
    Array<uint16_t> x(first.back(), channels);
    for (size_t i = 0; i < stretches.size(); ++i)
      std::copy_n(&world_.x[stretches[i].source][stretches[i].past * channels],
                  stretches[i].rows * channels, &x[first[i] * channels]);
    const Array<int32_t> first_row = Ints(first), pasts = Ints(past),
                         slots = Ints(slot);
    const Sequences sequences = {first_row, pasts, slots, Tensor()};
    Array<float> y(first.back(), channels);
    table_.conv_silu(pool_, x, world_.w, sequences, state_, y);
    return y.values();
  }

  const std::vector<uint16_t>& state() const { return state_.values(); }

 private:
  const World& world_;
  const KernelTable& table_;
  ThreadPool pool_;
  Array<uint16_t> state_;
};

TEST(ConvSilu, EqualsTheDefinitionInDoubles) {
  for (const int64_t width : {2, 4, 7}) {
    const World world(width, 83, 1, 12, 1);
    for (const Isa isa : TestIsas()) {
      const auto y = Runner(world, isa, 1).Step({{0, 0, 12}});
      for (int64_t t = 0; t < 12; ++t)
        for (int64_t c = 0; c < 83; ++c)
          EXPECT_NEAR(y[t * 83 + c], world.Expected(0, t, c), 3e-6);
    }
  }
}

TEST(ConvSilu, StateHoldsTheLastRawRowsOldestFirst) {
  const World world(4, 20, 1, 9, 2);
  for (const Isa isa : TestIsas()) {
    Runner runner(world, isa, 1);
    runner.Step({{0, 0, 9}});
    for (int64_t i = 0; i < 3 * 20; ++i)
      EXPECT_EQ(runner.state()[3 * 20 + i], world.x[0][6 * 20 + i]);
  }
}

TEST(ConvSilu, AShortSequenceKeepsZerosBeforeItsFirstRow) {
  const World world(4, 20, 1, 9, 3);
  for (const Isa isa : TestIsas()) {
    Runner runner(world, isa, 1);
    runner.Step({{0, 0, 1}});
    for (int64_t i = 0; i < 3 * 20; ++i)
      EXPECT_EQ(runner.state()[3 * 20 + i],
                i < 2 * 20 ? 0 : world.x[0][i - 2 * 20]);
  }
}

TEST(ConvSilu, BitsDoNotDependOnTheCutIntoSteps) {
  const World world(4, 150, 1, 12, 4);
  for (const Isa isa : TestIsas()) {
    Runner whole_runner(world, isa, 1), cut_runner(world, isa, 2);
    const auto whole = whole_runner.Step({{0, 0, 12}});
    std::vector<float> cut;
    for (const Stretch& s :
         {Stretch{0, 0, 1}, {0, 1, 1}, {0, 2, 5}, {0, 7, 2}, {0, 9, 3}}) {
      const auto part = cut_runner.Step({s});
      cut.insert(cut.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(SameBits(cut, whole));
    EXPECT_EQ(cut_runner.state(), whole_runner.state());
  }
}

TEST(ConvSilu, BitsDoNotDependOnTheNeighbours) {
  const World world(4, 70, 3, 8, 5);
  for (const Isa isa : TestIsas()) {
    const auto together =
        Runner(world, isa, 1).Step({{0, 0, 2}, {1, 0, 8}, {2, 0, 1}});
    const auto alone = Runner(world, isa, 1).Step({{1, 0, 8}});
    EXPECT_TRUE(SameBits(
        std::vector<float>(&together[2 * 70], &together[10 * 70]), alone));
  }
}

TEST(ConvSilu, ASequenceWithoutRowsKeepsItsStateAndDisturbsNobody) {
  const World world(4, 150, 2, 8, 7);
  for (const Isa isa : TestIsas()) {
    Runner runner(world, isa, 1);
    const auto alone = runner.Step({{1, 0, 8}});
    const std::vector<uint16_t> state = runner.state();
    EXPECT_TRUE(SameBits(runner.Step({{0, 0, 0}, {1, 0, 8}}), alone));
    EXPECT_EQ(runner.state(), state);
  }
}

TEST(ConvSilu, BitsAreTheSameInEverySetOnAnyNumberOfThreads) {
  const World world(4, 500, 2, 300, 6);
  std::vector<std::vector<float>> results;
  for (const Isa isa : TestIsas())
    for (const int threads : {1, 2})
      results.push_back(
          Runner(world, isa, threads).Step({{0, 0, 300}, {1, 0, 7}}));
  for (const auto& result : results) EXPECT_TRUE(SameBits(result, results[0]));
}

}  // namespace
}  // namespace phalanx
