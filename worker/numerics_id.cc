#include "worker/numerics_id.h"

#include "absl/strings/str_cat.h"
#include "kernels/quantise.h"
#include "worker/checkpoint/digest.h"

namespace phalanx {

std::string NumericsId(absl::string_view source_digest,
                       const ModelConfig& config, WeightFormat weights,
                       absl::string_view kernel_family) {
  constexpr size_t kDigits = 16;
  constexpr size_t kConfigDigits = 8;
  return absl::StrCat(source_digest.substr(0, kDigits), "-",
                      ConfigDigest(config).substr(0, kConfigDigits), "/",
                      VersionedFormatName(weights), "/", kernel_family);
}

}  // namespace phalanx
