// int8 and int4 by the byte products that every processor of the set has.

#include "kernels/cpu/quant_products.h"

namespace phalanx::PHALANX_ISA {

const ProductKernels kInt8Products =
    QuantProductsAs<WeightFormat::kInt8, WordLanes>();
const ProductKernels kInt4Products =
    QuantProductsAs<WeightFormat::kInt4, WordLanes>();

}  // namespace phalanx::PHALANX_ISA
