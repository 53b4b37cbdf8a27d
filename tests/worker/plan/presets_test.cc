#include "worker/plan/presets.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(PresetConfig, EveryNameHasOneThatRunsAtEverySize) {
  for (const absl::string_view name : kPresetNames)
    for (const int tp_size : {1, 2, 4, 8})
      EXPECT_THAT(MakeLocalShape(PresetConfig(name).value(), 0, tp_size),
                  IsOk())
          << name;
}

TEST(PresetConfig, EveryFourthLayerIsAttention) {
  const ModelConfig config = PresetConfig("qwen3.6-35b-a3b").value();

  EXPECT_EQ(config.num_layers(), 40);
  EXPECT_EQ(std::count(config.layer_types.begin(), config.layer_types.end(),
                       LayerKind::kFullAttention),
            10);
  EXPECT_EQ(config.layer_types[3], LayerKind::kFullAttention);
  EXPECT_EQ(config.layer_types[39], LayerKind::kFullAttention);
}

TEST(PresetConfig, AnUnknownNameIsRefusedWithThoseThereAre) {
  EXPECT_THAT(PresetConfig("gpt-2"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("preset is \"gpt-2\""),
                             HasSubstr("qwen3.6-35b-a3b"),
                             HasSubstr("qwen3.5-397b-a17b"))));
}

}  // namespace
}  // namespace phalanx
