#include "worker/bench/rank_messages.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

// What the other process reads of what this one wrote.
nlohmann::json Sent(const nlohmann::json& message) {
  return nlohmann::json::parse(message.dump());
}

TEST(PassRequest, ArrivesAsItWas) {
  const PassRequest request{.c = {CaseKind::kPrefill, 512, 4096},
                            .seconds = 0.1,
                            .seed = 7,
                            .timing = true};

  const PassRequest arrived = PassRequestOf(Sent(ToJson(request)));

  EXPECT_EQ(arrived.c, request.c);
  EXPECT_EQ(arrived.seconds, 0.1);
  EXPECT_EQ(arrived.seed, 7u);
  EXPECT_TRUE(arrived.timing);
}

TEST(PassResult, ArrivesWithItsTimes) {
  PassResult result{.passes = 3, .seconds = 0.1, .work = {}, .parts = {}};
  result.parts[static_cast<size_t>(Part::kHead)] = 1.0 / 3;

  const PassResult arrived = PassResultOf(Sent(ToJson(result)));

  EXPECT_EQ(arrived.passes, 3);
  EXPECT_EQ(arrived.seconds, 0.1);
  EXPECT_EQ(arrived.parts, result.parts);
}

TEST(PassResult, ArrivesWithEveryFieldOfItsWork) {
  PassResult result;
  for (size_t i = 0; i < kWorkFields.size(); ++i)
    result.work.*kWorkFields[i] = static_cast<double>(i + 1);

  const PassResult arrived = PassResultOf(Sent(ToJson(result)));

  for (size_t i = 0; i < kWorkFields.size(); ++i)
    EXPECT_EQ(arrived.work.*kWorkFields[i], static_cast<double>(i + 1));
}

TEST(PassResult, ArrivesWithItsProducts) {
  PassResult result;
  result.work.products.Add({.part = Part::kExperts,
                            .peak = Peak::kInt8,
                            .bytes = 3003,
                            .flops = 1001});
  result.work.products.Add(
      {.part = Part::kRest, .peak = Peak::kNone, .bytes = 0x1p53});

  const PassResult arrived = PassResultOf(Sent(ToJson(result)));

  EXPECT_EQ(arrived.work.products.entries(), result.work.products.entries());
}

TEST(RankFacts, ArriveAsTheyWere) {
  const RankFacts facts{.kernel_family = "fma",
                        .instruction_set = "avx2",
                        .moe_mode = "offload",
                        .weights = WeightFormat::kInt4,
                        .threads = 2,
                        .load_seconds = 0.1,
                        .planned_bytes = int64_t{1} << 40};

  const RankFacts arrived = RankFactsOf(Sent(ToJson(facts)));

  EXPECT_EQ(arrived.kernel_family, "fma");
  EXPECT_EQ(arrived.instruction_set, "avx2");
  EXPECT_EQ(arrived.moe_mode, "offload");
  EXPECT_EQ(arrived.weights, WeightFormat::kInt4);
  EXPECT_EQ(arrived.threads, 2);
  EXPECT_EQ(arrived.load_seconds, 0.1);
  EXPECT_EQ(arrived.planned_bytes, int64_t{1} << 40);
}

}  // namespace
}  // namespace phalanx
