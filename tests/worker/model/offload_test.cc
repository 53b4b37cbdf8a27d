// Experts in a bank on the host, with slots for some, are the same experts: the
// bits of the logits are those of a resident group, whole or cut, in steps that
// need few of a layer's experts or all, and whatever the slots held before.

#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/tp_group.h"

namespace phalanx {
namespace {

constexpr int64_t kTokens = 192;
constexpr int64_t kDecodeSteps = 8;

struct Case {
  const char* model;
  int tp_size = 1;
  bool full = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  // A test's name takes no dash.
  *out << (std::string(c.model) == "phalanx-mini" ? "mini" : c.model) << "_tp"
       << c.tp_size << (c.full ? "_full" : "_sharded");
}

std::string ModelDir(const std::string& name) {
  return name == "phalanx-mini"
             ? std::string(SOURCE_ROOT) + "/deploy/models/phalanx-mini"
             : std::string(GOLDEN_DIR) + "/models/" + name;
}

std::unique_ptr<TpGroup> MakeGroup(const Case& c,
                                   std::optional<Offload> offload) {
  return TpGroup::MustCreate({.model_dir = ModelDir(c.model),
                              .tp_size = c.tp_size,
                              .backends = BestCpuBackends(),
                              .limits = LaneLimits(1, kTokens),
                              .offload = offload});
}

LogitRows Answer(TpGroup& group, int64_t prompt_tokens) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < prompt_tokens; ++i)
    prompt.push_back(
        static_cast<int32_t>((7 + 31 * i) % group.config().vocab_size));
  Lane lane = TpGroup::MakeLane(0, 0, kTokens);
  return Continue(group, lane, prompt, /*chunk=*/64, kDecodeSteps);
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

class OffloadEquality : public testing::TestWithParam<Case> {
 protected:
  const std::unique_ptr<TpGroup> resident_ =
      MakeGroup(GetParam(), std::nullopt);
  const int64_t experts_ = resident_->config().num_experts;
};

TEST_P(OffloadEquality, WithSlotsForOneLayer) {
  const auto group = MakeGroup(GetParam(), Offload{GetParam().full, experts_});

  const LogitRows logits = Answer(*group, 100);

  EXPECT_TRUE(SameBits(logits, Answer(*resident_, 100)));
}

TEST_P(OffloadEquality, WithSlotsForTwoLayersWhichPrefillPrefetches) {
  const auto group =
      MakeGroup(GetParam(), Offload{GetParam().full, 2 * experts_});

  const LogitRows logits = Answer(*group, 100);

  EXPECT_TRUE(SameBits(logits, Answer(*resident_, 100)));
}

TEST_P(OffloadEquality, AgainWithWhatTheSlotsKept) {
  const auto group =
      MakeGroup(GetParam(), Offload{GetParam().full, 2 * experts_});
  (void)Answer(*group, 9);

  const LogitRows logits = Answer(*group, 2);

  EXPECT_TRUE(SameBits(logits, Answer(*resident_, 2)));
}

INSTANTIATE_TEST_SUITE_P(
    Models, OffloadEquality,
    testing::Values(Case{"moe", 1}, Case{"moe", 2}, Case{"moe", 2, true},
                    Case{"moe", 4}, Case{"moe", 8, true}, Case{"moe_text", 2},
                    Case{"moe_text", 2, true}, Case{"moe_fp8", 1},
                    Case{"moe_fp8", 4}, Case{"moe_fp8", 2, true},
                    Case{"next", 2}, Case{"next", 4, true},
                    Case{"phalanx-mini", 2}, Case{"phalanx-mini", 8},
                    Case{"phalanx-mini", 8, true}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace phalanx
