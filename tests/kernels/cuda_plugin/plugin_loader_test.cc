#include "kernels/cuda_plugin/plugin_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

std::string Plugin(const std::string& name) {
  return PLUGIN_DIR "/" + name + ".so";
}

constexpr char kReal[] = PROGRAM_DIR "/libphalanx_cuda.so";

TEST(CudaPlugin, IsSoughtBesideTheProgram) {
  EXPECT_THAT(CudaPluginPath(),
              AllOf(testing::StartsWith("/"), EndsWith("/libphalanx_cuda.so")));
}

TEST(CudaPlugin, ThatIsAbsentIsNamedByItsFile) {
  EXPECT_THAT(LoadCudaPlugin("/no/such/libphalanx_cuda.so"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/no/such/libphalanx_cuda.so")));
}

TEST(CudaPlugin, ThatHasNoTableIsNone) {
  EXPECT_THAT(LoadCudaPlugin(Plugin("no_plugin")),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("no_plugin.so"),
                             HasSubstr("phalanx_cuda_plugin"))));
}

TEST(CudaPlugin, OfAnotherAbiIsRefused) {
  const std::string needed = "needs " + std::to_string(kCudaPluginAbi);
  EXPECT_THAT(LoadCudaPlugin(Plugin("abi_plugin")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("abi_plugin.so has ABI -1"),
                             HasSubstr(needed))));
}

TEST(CudaPlugin, OfAnotherVersionIsRefused) {
  EXPECT_THAT(LoadCudaPlugin(Plugin("version_plugin")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is of version 0.0.7")));
}

TEST(CudaPlugin, ThatLacksAnOpIsNotServed) {
  EXPECT_THAT(CreateServedCudaBackend(Plugin("lacking_plugin"), {}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("no Rope")));
}

TEST(CudaPlugin, ThatIsWholeIsAskedForABackendAsConfigured) {
  EXPECT_THAT(CreateServedCudaBackend(Plugin("whole_plugin"), {.device = 3}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("asked for device 3")));
}

TEST(CudaPlugin, AsItIsBuiltSaysWhichOpsItLacks) {
  if (!HAS_CUDA_PLUGIN) GTEST_SKIP() << "built without nvcc";

  const auto plugin = LoadCudaPlugin(kReal);

  ASSERT_OK(plugin);
  EXPECT_THAT(
      CheckCudaServes(**plugin),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("PagedAttention")));
}

TEST(CudaPlugin, AsItIsBuiltGivesABackendOrSaysWhatTheMachineLacks) {
  if (!HAS_CUDA_PLUGIN) GTEST_SKIP() << "built without nvcc";
  const auto plugin = LoadCudaPlugin(kReal);
  ASSERT_OK(plugin);

  const auto backend = (*plugin)->create({});

  if (!backend.ok()) {
    EXPECT_THAT(backend, StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("CUDA device")));
  }
}

}  // namespace
}  // namespace phalanx
