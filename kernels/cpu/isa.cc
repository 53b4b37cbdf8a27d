#include "kernels/cpu/isa.h"

#include <cpuid.h>

#include <array>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

// Ascending, so that the last one a processor has is the best.
constexpr std::array<Isa, 3> kAllSets = {Isa::kPortable, Isa::kAvx2,
                                         Isa::kAvx512};

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Zeros where the leaf does not exist.
Registers Cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

constexpr bool Bit(uint32_t word, int bit) { return (word >> bit & 1) != 0; }

// The registers of a thread that the system saves, as bits of XCR0.
constexpr uint32_t kSseAvx = 0x06;
constexpr uint32_t kSseAvxAvx512 = 0xe6;
uint32_t SavedRegisters() {
  constexpr int kOsxsave = 27;
  if (!Bit(Cpuid(1).ecx, kOsxsave)) return 0;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

std::string Vendor() {
  const Registers r = Cpuid(0);
  char text[12];
  std::memcpy(text, &r.ebx, 4);
  std::memcpy(text + 4, &r.edx, 4);
  std::memcpy(text + 8, &r.ecx, 4);
  return std::string(text, sizeof(text));
}

std::string Brand() {
  char text[48 + 1] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = Cpuid(0x80000002u + i);
    std::memcpy(text + 16 * i, &r, sizeof(r));
  }
  return text;
}

bool Has(const CpuFeatures& cpu, Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return cpu.avx2;
    case Isa::kAvx512:
      return cpu.avx512;
  }
  return false;
}

}  // namespace

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "";
}

const char* KernelFamilyName(KernelFamily family) {
  switch (family) {
    case KernelFamily::kFma:
      return "fma-1";
    case KernelFamily::kBf16Dot:
      return "bf16dot-2";
  }
  return "";
}

CpuFeatures DetectCpu() {
  CpuFeatures cpu;
  cpu.vendor = Vendor();
  cpu.name = Brand();
  const Registers basic = Cpuid(1);
  const int family = basic.eax >> 8 & 0xf;
  const int model = basic.eax >> 4 & 0xf;
  cpu.family = family + (family == 0xf ? basic.eax >> 20 & 0xff : 0);
  const bool extended = family == 0x6 || family == 0xf;
  cpu.model = model + (extended ? (basic.eax >> 16 & 0xf) << 4 : 0);

  constexpr int kFma = 12;
  constexpr int kAvx2 = 5, kF = 16, kDq = 17, kBw = 30, kVl = 31;
  constexpr int kBf16 = 5;
  constexpr int kVnni = 11;
  const Registers more = Cpuid(7);
  const uint32_t saved = SavedRegisters();
  cpu.avx2 = (saved & kSseAvx) == kSseAvx && Bit(basic.ecx, kFma) &&
             Bit(more.ebx, kAvx2);
  cpu.avx512 = cpu.avx2 && (saved & kSseAvxAvx512) == kSseAvxAvx512 &&
               Bit(more.ebx, kF) && Bit(more.ebx, kDq) && Bit(more.ebx, kBw) &&
               Bit(more.ebx, kVl);
  cpu.avx512_vnni = cpu.avx512 && Bit(more.ecx, kVnni);
  cpu.avx512_bf16 = cpu.avx512 && Bit(Cpuid(7, 1).eax, kBf16);
  return cpu;
}

absl::StatusOr<Isa> ChooseIsa(const CpuFeatures& cpu, const char* forced) {
  const bool any = forced == nullptr || *forced == '\0';
  Isa best = Isa::kPortable;
  for (const Isa isa : kAllSets) {
    if (any) {
      if (Has(cpu, isa)) best = isa;
    } else if (std::strcmp(forced, IsaName(isa)) == 0) {
      if (Has(cpu, isa)) return isa;
      return absl::FailedPreconditionError(
          absl::StrCat("PHALANX_ISA is ", forced, ", which this processor (",
                       cpu.name, ") does not have"));
    }
  }
  if (any) return best;
  return absl::InvalidArgumentError(absl::StrCat(
      "PHALANX_ISA is \"", forced, "\"; must be avx512, avx2 or portable"));
}

KernelFamily ChooseKernelFamily(const CpuFeatures& cpu, Isa isa) {
  constexpr int kZen4 = 0x19;  // With AVX512_BF16; Zen 3 lacks it.
  const bool fast = cpu.vendor == "AuthenticAMD" && cpu.family >= kZen4;
  return fast && Supports(cpu, isa, KernelFamily::kBf16Dot)
             ? KernelFamily::kBf16Dot
             : KernelFamily::kFma;
}

bool Supports(const CpuFeatures& cpu, Isa isa, KernelFamily family) {
  if (!Has(cpu, isa)) return false;
  switch (family) {
    case KernelFamily::kFma:
      return true;
    case KernelFamily::kBf16Dot:
      return isa == Isa::kAvx512 && cpu.avx512_bf16;
  }
  return false;
}

bool SupportsVnni(const CpuFeatures& cpu, Isa isa) {
  return isa == Isa::kAvx512 && cpu.avx512_vnni;
}

}  // namespace phalanx
