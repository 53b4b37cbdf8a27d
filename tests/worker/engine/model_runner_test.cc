#include "worker/engine/model_runner.h"

#include <gtest/gtest.h>

#include "kernels/reference/reference_backend.h"
#include "tests/support/status_matchers.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/loader.h"
#include "worker/experts/resident_experts.h"

namespace phalanx {
namespace {

constexpr StepPlanLimits kLimits = {.max_sequences = 3,
                                    .max_tokens = 40,
                                    .max_logit_rows = 3,
                                    .max_model_len = 500,
                                    .vocab_size = 960,
                                    .state_slots = 5,
                                    .kv_blocks = 9,
                                    .block_tokens = 64};

class Workspace : public testing::TestWithParam<int> {};

TEST_P(Workspace, IsWhatARunnerAllocatesBesideWeightsAndCaches) {
  const char* const folder = SOURCE_ROOT "/deploy/models/phalanx-mini";
  const ModelConfig config = LoadModelConfig(folder).value();
  const LocalShape local = MakeLocalShape(config, 0, GetParam()).value();
  const Checkpoint checkpoint = Checkpoint::Open(folder).value();
  ReferenceBackend backend;
  const Weights weights =
      LoadWeights(checkpoint, config, local, backend).value();
  ResidentExperts experts(weights);

  const auto runner =
      ModelRunner::Create(backend, config, local, weights, experts, kLimits);

  ASSERT_THAT(runner, IsOk());
  const int64_t planned = ModelRunner::DeviceWorkspaceBytes(
      config, local, kLimits, backend.activation_dtype());
  const int64_t allocated =
      backend.allocated_bytes_of(MemoryCategory::kWorkspace);
  EXPECT_GE(allocated, planned);
  // Each of the three buffers is padded to a line.
  EXPECT_LT(allocated, planned + 3 * 64);
}

INSTANTIATE_TEST_SUITE_P(TpSizes, Workspace, testing::Values(1, 2, 8));

}  // namespace
}  // namespace phalanx
