#ifndef PHALANX_KERNELS_REFERENCE_ROW_PRODUCTS_H_
#define PHALANX_KERNELS_REFERENCE_ROW_PRODUCTS_H_

#include <cstdint>
#include <vector>

#include "kernels/packed_weight.h"

namespace phalanx {

// One row of activations on its way through a weight of any format: its
// products with the weight's rows, slice by slice. Of bf16 they are sums in
// double; of int8 and int4 the whole numbers and the f32 chain of
// kernels/quantise.h to the letter, so a served backend's are equal to them.
class RowProducts {
 public:
  // x [w.cols]; both outlive this. `slices` as the op is given them.
  RowProducts(const float* x, const PackedWeight& w, int slices);

  double Slice(int64_t matrix, int64_t row, int slice) const;

 private:
  double Bf16Slice(const uint16_t* row, int slice) const;
  float QuantisedSlice(const uint8_t* codes, const uint16_t* scales,
                       int slice) const;

  const float* const x_;
  const PackedWeight& w_;
  const WeightGroups groups_;
  std::vector<int8_t> codes_;  // Of x; int8 and int4 alone, as are its scales.
  std::vector<float> scales_;
};

}  // namespace phalanx

#endif  // PHALANX_KERNELS_REFERENCE_ROW_PRODUCTS_H_
