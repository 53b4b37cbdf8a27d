#include "tests/kernels/backend_cases.h"

#include <utility>

#include "common/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/reference/reference_backend.h"

namespace phalanx {
namespace {

BackendCase CpuCase(std::string name, Isa isa, KernelFamily family) {
  return {std::move(name), [isa, family](int threads) {
            CpuBackendConfig config;
            config.threads = threads;
            config.spin = false;  // Many short-lived pools on few processors.
            config.isa = isa;
            config.family = family;
            auto backend = CreateCpuBackend(config);
            CHECK(backend.ok());
            return *std::move(backend);
          }};
}

std::vector<BackendCase> MakeCases() {
  const CpuFeatures cpu = DetectCpu();
  std::vector<BackendCase> cases;
  cases.push_back(
      {"reference", [](int) { return std::make_unique<ReferenceBackend>(); }});
  cases.push_back(
      CpuCase("cpu_fma_portable", Isa::kPortable, KernelFamily::kFma));
  if (Supports(cpu, Isa::kAvx512, KernelFamily::kFma)) {
    cases.push_back(
        CpuCase("cpu_fma_avx512", Isa::kAvx512, KernelFamily::kFma));
  }
  if (Supports(cpu, Isa::kAvx512, KernelFamily::kBf16Dot)) {
    cases.push_back(
        CpuCase("cpu_bf16dot_avx512", Isa::kAvx512, KernelFamily::kBf16Dot));
  }
  return cases;
}

}  // namespace

const std::vector<BackendCase>& BackendCases() {
  static const std::vector<BackendCase> cases = MakeCases();
  return cases;
}

}  // namespace phalanx
