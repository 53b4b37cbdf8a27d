#include "worker/numerics_id.h"

#include "absl/strings/str_cat.h"
#include "kernels/quantise.h"

namespace phalanx {

std::string NumericsId(absl::string_view source_digest, WeightFormat weights,
                       absl::string_view kernel_family) {
  constexpr size_t kDigits = 16;
  const std::string version = weights == WeightFormat::kBf16
                                  ? ""
                                  : absl::StrCat("-", kQuantiserVersion);
  return absl::StrCat(source_digest.substr(0, kDigits), "/",
                      WeightFormatName(weights), version, "/", kernel_family);
}

}  // namespace phalanx
