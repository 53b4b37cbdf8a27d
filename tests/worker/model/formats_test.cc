// int8 and int4 weights under the promise: a format's logits are the same bits
// at every tensor-parallel size, resident or from slots, whole or in chunks.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/tp_group.h"

namespace phalanx {
namespace {

constexpr int64_t kTokens = 128;
constexpr int64_t kPromptTokens = 70;
constexpr int64_t kDecodeSteps = 6;

struct Case {
  const char* model;
  WeightFormat format;
  int most_ranks = 8;
  bool dense = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.model << "_" << WeightFormatName(c.format);
}

std::unique_ptr<TpGroup> MakeGroup(
    const Case& c, int tp_size, std::optional<Offload> offload = std::nullopt) {
  return TpGroup::MustCreate(
      {.model_dir = GOLDEN_DIR "/models/" + std::string(c.model),
       .tp_size = tp_size,
       .backends = BestCpuBackends(),
       .limits = LaneLimits(1, kTokens),
       .offload = offload,
       .format = c.format});
}

LogitRows Answer(TpGroup& group, int64_t chunk = 64) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < kPromptTokens; ++i)
    prompt.push_back(
        static_cast<int32_t>((7 + 31 * i) % group.config().vocab_size));
  Lane lane = TpGroup::MakeLane(0, 0, kTokens);
  return Continue(group, lane, prompt, chunk, kDecodeSteps);
}

bool SameBits(const LogitRows& ours, const LogitRows& theirs) {
  if (ours.size() != theirs.size()) return false;
  for (size_t i = 0; i < ours.size(); ++i)
    if (ours[i].size() != theirs[i].size() ||
        std::memcmp(ours[i].data(), theirs[i].data(),
                    ours[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

class Formats : public testing::TestWithParam<Case> {
 protected:
  const std::unique_ptr<TpGroup> one_ = MakeGroup(GetParam(), 1);
  const LogitRows want_ = Answer(*one_);
};

TEST_P(Formats, AreTheSameBitsAtEveryTensorParallelSize) {
  for (int tp_size = 2; tp_size <= GetParam().most_ranks; tp_size *= 2)
    EXPECT_TRUE(SameBits(Answer(*MakeGroup(GetParam(), tp_size)), want_))
        << "tp_size " << tp_size;
}

TEST_P(Formats, AreTheSameBitsFromSlots) {
  if (GetParam().dense) return;  // Has no experts to offload.
  const int64_t slots = one_->config().num_experts;
  for (int tp_size = 1; tp_size <= GetParam().most_ranks; tp_size *= 2)
    for (const bool full : {false, true})
      EXPECT_TRUE(SameBits(
          Answer(*MakeGroup(GetParam(), tp_size, Offload{full, slots})), want_))
          << "tp_size " << tp_size << (full ? ", full" : ", sharded");
}

TEST_P(Formats, AreTheSameBitsTokenByToken) {
  EXPECT_TRUE(SameBits(Answer(*MakeGroup(GetParam(), 2), /*chunk=*/1), want_));
}

TEST_P(Formats, AreNotTheBitsOfBf16) {
  Case bf16 = GetParam();
  bf16.format = WeightFormat::kBf16;

  EXPECT_FALSE(SameBits(Answer(*MakeGroup(bf16, 1)), want_));
}

INSTANTIATE_TEST_SUITE_P(Models, Formats,
                         testing::Values(Case{"moe", WeightFormat::kInt8},
                                         Case{"moe", WeightFormat::kInt4},
                                         Case{"moe_fp8", WeightFormat::kInt8},
                                         Case{"next", WeightFormat::kInt4, 4},
                                         Case{"dense", WeightFormat::kInt8, 4,
                                              true}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace phalanx
