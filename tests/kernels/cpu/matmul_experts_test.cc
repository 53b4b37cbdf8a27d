// The exactness of ExpertsGateUp and ExpertsDown.

#include <algorithm>
#include <numeric>

#include "tests/kernels/cpu/matmul_rig.h"

namespace phalanx {
namespace {

constexpr int64_t kExperts = 6;
constexpr int64_t kPerToken = 3;
constexpr int64_t kHidden = 72;
constexpr int64_t kWidth = 48;
constexpr int64_t kSharedWidth = 80;

// Made-up routing of T tokens and the tensors that show it to the ops.
struct Routes {
  std::vector<int32_t> expert, offsets, order;
  Floats weight;

  Routes(int64_t tokens, uint32_t seed) {
    std::mt19937 random(seed);
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<int32_t> all(kExperts - 1);  // The last one stays unused.
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), random);
      std::sort(all.begin(), all.begin() + kPerToken);
      expert.insert(expert.end(), all.begin(), all.begin() + kPerToken);
      for (int64_t j = 0; j < kPerToken; ++j)
        weight.push_back(0.1f + static_cast<float>(random() % 1000) / 1234.0f);
    }
    Sort();
  }

  // Token t of others, alone.
  Routes(const Routes& others, int64_t t) {
    const auto from = t * kPerToken;
    expert.assign(others.expert.begin() + from,
                  others.expert.begin() + from + kPerToken);
    weight.assign(others.weight.begin() + from,
                  others.weight.begin() + from + kPerToken);
    Sort();
  }

  void Sort() {
    offsets.assign(1, 0);
    for (int32_t e = 0; e < kExperts; ++e) {
      for (size_t i = 0; i < expert.size(); ++i)
        if (expert[i] == e) order.push_back(static_cast<int32_t>(i));
      offsets.push_back(static_cast<int32_t>(order.size()));
    }
  }

  Routing View() {
    const auto tokens = static_cast<int64_t>(expert.size()) / kPerToken;
    return {MakeTensor(expert.data(), DType::kI32, tokens, kPerToken),
            MakeTensor(weight.data(), DType::kF32, tokens, kPerToken),
            MakeTensor(offsets.data(), DType::kI32, kExperts + 1),
            MakeTensor(order.data(), DType::kI32, tokens * kPerToken)};
  }
};

Tensor View(Bf16s& data, int64_t rows) {
  const auto size = static_cast<int64_t>(data.size());
  return MakeTensor(data.data(), DType::kBf16, rows, size / rows);
}

class ExpertsTest : public testing::TestWithParam<CpuKind> {
 protected:
  void SetUp() override {
    if (!CanRun(GetParam())) GTEST_SKIP() << "not on this processor";
  }

  // Inputs of a down product, `tokens` of them.
  struct Down {
    Down(Backend& backend, int64_t tokens)
        : routes(tokens, 7),
          hidden(RandomBf16(tokens * kPerToken * kWidth, 1)),
          shared_hidden(RandomBf16(tokens * kSharedWidth, 2)),
          gate(RandomBf16(tokens, 3)),
          host(RandomBf16(kExperts * kHidden * kWidth, 4)),
          shared_host(RandomBf16(kHidden * kSharedWidth, 5)) {
      PackBy(backend);
    }
    // Token t of `all`, alone.
    Down(Backend& backend, const Down& all, int64_t t)
        : routes(all.routes, t),
          hidden(all.hidden.begin() + t * kPerToken * kWidth,
                 all.hidden.begin() + (t + 1) * kPerToken * kWidth),
          shared_hidden(all.shared_hidden.begin() + t * kSharedWidth,
                        all.shared_hidden.begin() + (t + 1) * kSharedWidth),
          gate(1, all.gate[t]),
          host(all.host),
          shared_host(all.shared_host) {
      PackBy(backend);
    }
    void PackBy(Backend& backend) {
      w = Pack(backend, host, kExperts, kHidden, kWidth, WeightLayout::kPlain);
      shared_w = Pack(backend, shared_host, 1, kHidden, kSharedWidth,
                      WeightLayout::kPlain);
    }
    int64_t tokens() const { return static_cast<int64_t>(gate.size()); }

    Floats Run(Backend& backend, int slices) {
      Floats y(tokens() * kHidden);
      backend.ops().ExpertsDown(
          View(hidden, tokens() * kPerToken), w, routes.View(),
          View(shared_hidden, tokens()), shared_w, View(gate, tokens()), slices,
          MakeTensor(y.data(), DType::kF32, tokens(), kHidden));
      return y;
    }

    Routes routes;
    Bf16s hidden, shared_hidden, gate, host, shared_host;
    PackedWeight w, shared_w;
  };
};

TEST_P(ExpertsTest, GateUpIsThatOfEachTokenByEachOfItsExperts) {
  auto backend = MakeCpu(GetParam(), 2);
  constexpr int64_t kTokens = 50;
  Routes routes(kTokens, 5);
  Bf16s x = RandomBf16(kTokens * kHidden, 6);
  const Bf16s host = RandomBf16(kExperts * 2 * kWidth * kHidden, 7);
  const PackedWeight w = Pack(*backend, host, kExperts, 2 * kWidth, kHidden,
                              WeightLayout::kGateUp);
  Bf16s hidden(kTokens * kPerToken * kWidth);

  backend->ops().ExpertsGateUp(View(x, kTokens), w, routes.View(),
                               View(hidden, kTokens * kPerToken));

  for (int64_t entry = 0; entry < kTokens * kPerToken; ++entry) {
    const int64_t t = entry / kPerToken;
    const auto from =
        host.begin() + routes.expert[entry] * 2 * kWidth * kHidden;
    const PackedWeight one =
        Pack(*backend, Bf16s(from, from + 2 * kWidth * kHidden), 1, 2 * kWidth,
             kHidden, WeightLayout::kGateUp);
    Bf16s want(kWidth);
    backend->ops().GateUp(Rows(View(x, kTokens), t, 1), one, View(want, 1));
    ASSERT_TRUE(
        std::equal(want.begin(), want.end(), hidden.begin() + entry * kWidth))
        << entry;
  }
}

TEST_P(ExpertsTest, DownOfATokenDoesNotDependOnItsNeighbours) {
  auto backend = MakeCpu(GetParam());
  constexpr int64_t kTokens = 60;
  Down all(*backend, kTokens);
  const Floats together = all.Run(*backend, 8);

  for (int64_t t = 0; t < kTokens; ++t) {
    const Floats alone = Down(*backend, all, t).Run(*backend, 8);
    ASSERT_TRUE(
        std::equal(alone.begin(), alone.end(), together.begin() + t * kHidden))
        << t;
  }
}

TEST_P(ExpertsTest, DownOfMoreTokensThanItsScratchHoldsIsTheSame) {
  auto backend = MakeCpu(GetParam(), 2);
  constexpr int64_t kTokens = 1100;
  Down all(*backend, kTokens);
  const Floats together = all.Run(*backend, 8);

  for (const int64_t t : {0, 366, 367, 549, 550, 734, 1099}) {
    const Floats alone = Down(*backend, all, t).Run(*backend, 8);
    ASSERT_TRUE(
        std::equal(alone.begin(), alone.end(), together.begin() + t * kHidden))
        << t;
  }
}

TEST_P(ExpertsTest, ThreadsDoNotMatterToDown) {
  auto alone = MakeCpu(GetParam(), 1);
  auto many = MakeCpu(GetParam(), 3);

  EXPECT_EQ(Down(*alone, 40).Run(*alone, 4), Down(*many, 40).Run(*many, 4));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExpertsTest,
                         testing::Values(kPortableFma, kAvx2Fma, kAvx512Fma,
                                         kAvx512Bf16Dot),
                         KindName);

class FmaExpertsTest : public ExpertsTest {};

TEST_P(FmaExpertsTest, DownAddsExpertsInOrderInsideEachSlice) {
  auto backend = MakeCpu(GetParam());
  constexpr int64_t kTokens = 9;
  Down down(*backend, kTokens);
  // sigmoid(0) is 1/2 in every way to compute it.
  std::fill(down.gate.begin(), down.gate.end(), 0);

  const Floats y = down.Run(*backend, 2);

  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t n = 0; n < kHidden; ++n) {
      float planes[2] = {};
      for (int s = 0; s < 2; ++s) {
        for (int64_t j = 0; j < kPerToken; ++j) {
          const int64_t entry = t * kPerToken + j;
          const uint16_t* row =
              &down.host[(down.routes.expert[entry] * kHidden + n) * kWidth];
          planes[s] = std::fma(down.routes.weight[entry],
                               Chain(&down.hidden[entry * kWidth], row,
                                     s * kWidth / 2, (s + 1) * kWidth / 2),
                               planes[s]);
        }
        planes[s] =
            std::fma(0.5f,
                     Chain(&down.shared_hidden[t * kSharedWidth],
                           &down.shared_host[n * kSharedWidth],
                           s * kSharedWidth / 2, (s + 1) * kSharedWidth / 2),
                     planes[s]);
      }
      ASSERT_EQ(y[t * kHidden + n], planes[0] + planes[1]);
    }
  }
}

TEST_P(FmaExpertsTest, DownHasTheBitsOfThePortableKernels) {
  auto backend = MakeCpu(GetParam());
  auto portable = MakeCpu(kPortableFma);

  EXPECT_EQ(Down(*backend, 30).Run(*backend, 8),
            Down(*portable, 30).Run(*portable, 8));
}

INSTANTIATE_TEST_SUITE_P(Kinds, FmaExpertsTest,
                         testing::Values(kPortableFma, kAvx2Fma, kAvx512Fma),
                         KindName);

}  // namespace
}  // namespace phalanx
