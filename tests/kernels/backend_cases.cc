#include "tests/kernels/backend_cases.h"

#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/isa.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/missing_ops.h"
#include "kernels/reference/reference_backend.h"
#include "tests/cuda_on_cpu/emulated_mma.h"

namespace phalanx {
namespace {

// Little, so that weights of tests come through it in several parts.
constexpr int64_t kCudaStagingBytes = 128 << 10;

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

// The CUDA sources on this processor (tests/cuda_on_cpu).
BackendCase CudaCase(std::string name, bool tensor_cores) {
  return {std::move(name),
          [tensor_cores](int) {
            CudaBackendConfig config;
            config.staging_bytes = kCudaStagingBytes;
            config.tensor_cores = tensor_cores;
            auto backend = CreateCudaBackend(
                config, cuda_on_cpu::EmulatedTensorCoreProduct);
            CHECK(backend.ok());
            return *std::move(backend);
          },
          absl::StrCat(cuda::kMissingOps, ", Int8, Int4")};
}

std::vector<BackendCase> MakeCases() {
  const CpuFeatures cpu = DetectCpu();
  std::vector<BackendCase> cases;
  cases.push_back(
      {"reference", [](int) { return std::make_unique<ReferenceBackend>(); }});
  cases.push_back(
      CpuCase("cpu_fma_portable", Isa::kPortable, KernelFamily::kFma));
  if (Supports(cpu, Isa::kAvx2, KernelFamily::kFma))
    cases.push_back(CpuCase("cpu_fma_avx2", Isa::kAvx2, KernelFamily::kFma));
  if (Supports(cpu, Isa::kAvx512, KernelFamily::kFma)) {
    cases.push_back(
        CpuCase("cpu_fma_avx512", Isa::kAvx512, KernelFamily::kFma));
  }
  if (Supports(cpu, Isa::kAvx512, KernelFamily::kBf16Dot)) {
    cases.push_back(
        CpuCase("cpu_bf16dot_avx512", Isa::kAvx512, KernelFamily::kBf16Dot));
  }
  cases.push_back(CudaCase("cuda_on_cpu_scalar", /*tensor_cores=*/false));
  cases.push_back(CudaCase("cuda_on_cpu_tensor", /*tensor_cores=*/true));
  return cases;
}

}  // namespace

std::string MissingOpOf(const BackendCase& backend, const std::string& name) {
  for (const absl::string_view op :
       absl::StrSplit(backend.missing_ops, ", ", absl::SkipEmpty())) {
    const std::string missing(op);
    const size_t at = name.find(missing);
    if (at == std::string::npos) continue;
    // The next word begins with a capital or a number: no Route in Routed.
    const char next = name[at + missing.size()];
    if (!std::islower(static_cast<unsigned char>(next))) return missing;
  }
  return "";
}

const std::vector<BackendCase>& BackendCases() {
  static const std::vector<BackendCase> cases = MakeCases();
  return cases;
}

}  // namespace phalanx
