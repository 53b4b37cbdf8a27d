#include "kernels/quantise.h"

#include "common/check.h"
#include "kernels/quantise_group.h"

namespace phalanx {

std::string VersionedFormatName(WeightFormat format) {
  const std::string name = WeightFormatName(format);
  return format == WeightFormat::kBf16
             ? name
             : name + "-" + std::to_string(kQuantiserVersion);
}

void QuantiseWeightRow(const uint16_t* row, int64_t cols, int slices,
                       WeightFormat format, uint8_t* codes, uint16_t* scales) {
  CHECK(format != WeightFormat::kBf16);
  quantise::WeightRow(row, GroupsOf(cols, slices), format, codes, scales);
}

float QuantiseActivations(const float* x, int64_t count, int8_t* codes) {
  CHECK(count <= kMaxGroupCols);
  quantise::Group group;
  group.Load(x, count);
  return quantise::Activations(group, codes).scale;
}

}  // namespace phalanx
