// int8 and int4 by vpdpbusd: in the AVX-512 set, called only where isa.h saw
// AVX512_VNNI. The bits are those of quant.cc, so this is no family.

#include "kernels/cpu/quant_products.h"

namespace phalanx::PHALANX_ISA {

// Puts these products into a table of the set.
void UseVnni(KernelTable& table);

void UseVnni(KernelTable& table) {
  table.products[static_cast<size_t>(WeightFormat::kInt8)] =
      QuantProductsAs<WeightFormat::kInt8, VnniLanes>();
  table.products[static_cast<size_t>(WeightFormat::kInt4)] =
      QuantProductsAs<WeightFormat::kInt4, VnniLanes>();
}

}  // namespace phalanx::PHALANX_ISA
