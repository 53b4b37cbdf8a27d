#ifndef PHALANX_KERNELS_CPU_ISA_H_
#define PHALANX_KERNELS_CPU_ISA_H_

// What the processor can do and which kernels it gets: the only place that asks
// it. Nothing here is timed, so a machine always answers the same.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace phalanx {

// Instruction sets with kernels of their own, each a superset of those before
// it.
enum class Isa : uint8_t {
  kPortable,  // What every x86-64 processor has.
  kAvx2,      // AVX2 and FMA.
  kAvx512,    // AVX-512 F, BW, DQ and VL, and FMA.
};

// How a product accumulates, and so which bits come out (design.md section 3).
enum class KernelFamily : uint8_t {
  kFma,      // The same bits in every instruction set.
  kBf16Dot,  // vdpbf16ps: needs kAvx512 and the processor's AVX512_BF16.
};

// "portable", "avx2", "avx512": as PHALANX_ISA and GetStatus spell it.
const char* IsaName(Isa isa);

// "fma-1", "bf16dot-1": the family and the version of its kernels. Equal names
// promise equal bits, so the version rises when a chain of operations changes.
const char* KernelFamilyName(KernelFamily family);

// What cpuid and the system's saved state say.
struct CpuFeatures {
  std::string vendor;  // "GenuineIntel", "AuthenticAMD".
  std::string name;    // The brand string; empty where there is none.
  int family = 0;
  int model = 0;
  bool avx2 = false;    // All that Isa::kAvx2 wants, registers saved too.
  bool avx512 = false;  // All that Isa::kAvx512 wants, registers saved too.
  bool avx512_bf16 = false;
  bool avx512_vnni = false;
};

// Of the processor this runs on. Any thread.
CpuFeatures DetectCpu();

// The best set of `cpu`, or the one that `forced` names (the value of the
// environment variable PHALANX_ISA; null or empty: none).
//   INVALID_ARGUMENT     no set has that name
//   FAILED_PRECONDITION  the processor lacks it
absl::StatusOr<Isa> ChooseIsa(const CpuFeatures& cpu, const char* forced);

// The family that is fast on `cpu`, by its model: bf16dot on Zen 4 and 5, fma
// elsewhere. (vdpbf16ps runs at 2 per cycle on Zen 5, at 0.45 on Emerald
// Rapids.)
KernelFamily ChooseKernelFamily(const CpuFeatures& cpu, Isa isa);

// Whether the processor has the set, and the set the family.
bool Supports(const CpuFeatures& cpu, Isa isa, KernelFamily family);

// Whether int8 and int4 may use vpdpbusd. No family: whole numbers are exact,
// so the bits are those of any other instruction.
bool SupportsVnni(const CpuFeatures& cpu, Isa isa);

}  // namespace phalanx

#endif  // PHALANX_KERNELS_CPU_ISA_H_
