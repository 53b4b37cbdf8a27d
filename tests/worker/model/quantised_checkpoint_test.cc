// A checkpoint of `phalanx quantize` answers with the bits of the model that it
// is made from, quantised as it loads.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/tp_group.h"
#include "tests/worker/checkpoint/checkpoint_files.h"
#include "worker/quantise/quantise_checkpoint.h"

namespace phalanx {
namespace {

constexpr char kMini[] = SOURCE_ROOT "/deploy/models/phalanx-mini";
constexpr int64_t kTokens = 64;
constexpr int64_t kDecodeSteps = 6;

LogitRows Answer(const std::string& model_dir, WeightFormat format, int tp_size,
                 std::optional<Offload> offload = std::nullopt) {
  const auto group = TpGroup::MustCreate({.model_dir = model_dir,
                                          .tp_size = tp_size,
                                          .backends = BestCpuBackends(),
                                          .limits = LaneLimits(1, kTokens),
                                          .offload = offload,
                                          .format = format});
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 40; ++i) prompt.push_back((7 + 31 * i) % 896);
  Lane lane = TpGroup::MakeLane(0, 0, kTokens);
  return Continue(*group, lane, prompt, /*chunk=*/64, kDecodeSteps);
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

class QuantisedCheckpoint : public testing::TestWithParam<WeightFormat> {
 protected:
  QuantisedCheckpoint() : model_(folder_.path() + "/model") {
    const auto made = QuantiseCheckpoint(
        {.model_dir = kMini, .format = GetParam(), .out_dir = model_});
    EXPECT_TRUE(made.ok()) << made.status();
  }

  const TempFolder folder_;
  const std::string model_;
  const LogitRows want_ = Answer(kMini, GetParam(), 1);
};

TEST_P(QuantisedCheckpoint, GivesTheBitsOfQuantisingAtLoadAtEverySize) {
  for (const int tp_size : {1, 2, 4, 8})
    EXPECT_TRUE(SameBits(Answer(model_, GetParam(), tp_size), want_))
        << "tp_size " << tp_size;
}

TEST_P(QuantisedCheckpoint, GivesTheSameBitsFromSlots) {
  for (const bool full : {false, true})
    EXPECT_TRUE(SameBits(
        Answer(model_, GetParam(), 2, Offload{full, /*slots=*/16}), want_))
        << (full ? "full" : "sharded");
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantisedCheckpoint,
                         testing::Values(WeightFormat::kInt8,
                                         WeightFormat::kInt4),
                         [](const auto& info) {
                           return std::string(WeightFormatName(info.param));
                         });

}  // namespace
}  // namespace phalanx
