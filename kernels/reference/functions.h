#ifndef PHALANX_KERNELS_REFERENCE_FUNCTIONS_H_
#define PHALANX_KERNELS_REFERENCE_FUNCTIONS_H_

// The scalar functions of the model, in double.

#include <cmath>

namespace phalanx {

inline double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline double Silu(double x) { return x * Sigmoid(x); }

inline double Softplus(double x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

}  // namespace phalanx

#endif  // PHALANX_KERNELS_REFERENCE_FUNCTIONS_H_
