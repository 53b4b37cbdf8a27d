#include "kernels/cpu/cpu_backend.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/op_checks.h"
#include "kernels/weight_limits.h"

namespace phalanx {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
// From here on memory is mapped by itself, on huge pages where the system
// gives them.
constexpr int64_t kMappedBytes = 2 * kHugePageBytes;

constexpr int64_t RoundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// What a Buffer of `bytes` really takes.
constexpr int64_t PaddedBytes(int64_t bytes) {
  if (bytes >= kMappedBytes) return RoundUp(bytes, kPageBytes);
  return RoundUp(bytes > 0 ? bytes : 1, kAlignment);
}

// Zeroed pages that begin at a huge page, or null.
void* MapPages(int64_t bytes) {
  const int64_t room = bytes + kHugePageBytes;
  void* mapped = mmap(nullptr, room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(mapped);
  const int64_t skip =
      (kHugePageBytes - reinterpret_cast<intptr_t>(begin) % kHugePageBytes) %
      kHugePageBytes;
  char* data = begin + skip;
  if (skip > 0) munmap(begin, skip);
  munmap(data + bytes, room - skip - bytes);
  madvise(data, bytes, MADV_HUGEPAGE);  // A wish; small pages work too.
  return data;
}

void* AllocateZeroed(int64_t padded) {
  if (padded >= kMappedBytes) return MapPages(padded);
  void* data = std::aligned_alloc(kAlignment, padded);
  if (data != nullptr) std::memset(data, 0, padded);
  return data;
}

void FreeZeroed(void* data, int64_t padded) {
  if (padded >= kMappedBytes)
    munmap(data, padded);
  else
    std::free(data);
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const ThreadPoolConfig& pool, Isa isa, KernelFamily family,
             bool vnni, int64_t memory_limit_bytes)
      : isa_(isa),
        family_(family),
        memory_limit_bytes_(memory_limit_bytes),
        pool_(pool),
        table_(CpuTable(isa, family, vnni)),
        ops_(pool_, table_) {}

  ~CpuBackend() override { CHECK(held_.load() == 0); }

  DType activation_dtype() const override { return DType::kBf16; }
  std::string kernel_family() const override {
    return KernelFamilyName(family_);
  }
  std::string instruction_set() const override { return IsaName(isa_); }
  int threads() const override { return pool_.threads(); }

  absl::StatusOr<Buffer> Allocate(int64_t bytes, MemoryComponent component,
                                  absl::string_view what) override;
  int64_t allocated_bytes(MemoryComponent component) const override {
    return by_component_[static_cast<size_t>(component)].load(
        std::memory_order_relaxed);
  }

  void Upload(const void* host, Tensor device) override {
    CHECK(device.contiguous());
    std::memcpy(device.data, host,
                device.elements() * ElementBytes(device.dtype));
  }
  void Download(Tensor device, void* host) override {
    CHECK(device.contiguous());
    std::memcpy(host, device.data,
                device.elements() * ElementBytes(device.dtype));
  }

  absl::StatusOr<PackedWeight> AllocateWeight(const WeightShape& shape,
                                              MemoryComponent component,
                                              absl::string_view what) override;
  void PackWeight(const uint16_t* host, int64_t index,
                  PackedWeight& weight) override {
    CheckPackWeight(host, index, weight);
    table_.of(weight.format).pack_weight(host, index, weight);
  }
  void PackCodes(const uint8_t* codes, const uint16_t* scales, int64_t index,
                 PackedWeight& weight) override {
    CheckPackCodes(codes, scales, index, weight);
    table_.of(weight.format).pack_codes(codes, scales, index, weight);
  }
  std::string packed_layout() const override { return "tiles32-1"; }
  void StorePacked(const void* packed, int64_t index,
                   PackedWeight& weight) override {
    CHECK(index >= 0 && index < weight.count);
    std::memcpy(
        static_cast<char*>(weight.storage.data()) + index * weight.matrix_bytes,
        packed, static_cast<size_t>(weight.matrix_bytes));
  }
  void ReadPacked(const PackedWeight& weight, int64_t index,
                  void* packed) override {
    CHECK(index >= 0 && index < weight.count);
    std::memcpy(packed,
                static_cast<const char*>(weight.storage.data()) +
                    index * weight.matrix_bytes,
                static_cast<size_t>(weight.matrix_bytes));
  }

  // Every op is done when it returns and cannot fail.
  absl::Status Synchronize() override { return absl::OkStatus(); }
  Ops& ops() override { return ops_; }

 private:
  int64_t FreeBytes() const;
  void Count(MemoryComponent component, int64_t bytes) {
    held_.fetch_add(bytes, std::memory_order_relaxed);
    by_component_[static_cast<size_t>(component)].fetch_add(
        bytes, std::memory_order_relaxed);
  }

  const Isa isa_;
  const KernelFamily family_;
  const int64_t memory_limit_bytes_;
  std::atomic<int64_t> held_{0};
  std::array<std::atomic<int64_t>, kMemoryComponents> by_component_{};
  ThreadPool pool_;
  const KernelTable table_;
  CpuOps ops_;
};

int64_t CpuBackend::FreeBytes() const {
  if (memory_limit_bytes_ > 0) return memory_limit_bytes_ - held_.load();
  return static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) *
         sysconf(_SC_PAGESIZE);
}

absl::StatusOr<Buffer> CpuBackend::Allocate(int64_t bytes,
                                            MemoryComponent component,
                                            absl::string_view what) {
  CHECK(bytes >= 0);
  const int64_t padded = bytes <= kMaxBufferBytes ? PaddedBytes(bytes) : bytes;
  const bool within = padded <= kMaxBufferBytes &&
                      (memory_limit_bytes_ == 0 || padded <= FreeBytes());
  void* data = within ? AllocateZeroed(padded) : nullptr;
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " needs ", padded, " bytes; free are ", FreeBytes(),
                     memory_limit_bytes_ > 0
                         ? absl::StrCat(" of the limit ", memory_limit_bytes_)
                         : " on this machine"));
  }
  Count(component, padded);
  return Buffer(data, bytes, [this, component](void* held, int64_t size) {
    FreeZeroed(held, PaddedBytes(size));
    Count(component, -PaddedBytes(size));
  });
}

absl::StatusOr<PackedWeight> CpuBackend::AllocateWeight(
    const WeightShape& shape, MemoryComponent component,
    absl::string_view what) {
  CheckWeightShape(shape);
  RETURN_IF_ERROR(CheckWeightLimits(shape, kMaxWeightCols, FreeBytes(), what));
  PackedWeight w{shape, {}, 0};
  w.matrix_bytes = table_.of(shape.format).matrix_bytes(shape);
  ASSIGN_OR_RETURN(w.storage,
                   Allocate(shape.count * w.matrix_bytes, component, what));
  return w;
}

absl::Status CheckThreads(const CpuBackendConfig& config) {
  if (config.threads < 1 || config.threads > kMaxCpuThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "threads is ", config.threads, "; must be 1..", kMaxCpuThreads));
  }
  if (config.memory_limit_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory_limit_bytes is ", config.memory_limit_bytes,
                     "; must be 0 (none) or more"));
  }
  if (config.cpus.empty()) return absl::OkStatus();
  if (config.cpus.size() < static_cast<size_t>(config.threads)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cpus names ", config.cpus.size(), " CPUs for ",
                     config.threads, " threads; must name one each"));
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return absl::OkStatus();  // More CPUs than cpu_set_t holds: let pinning
                              // try.
  for (const int cpu : config.cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cpus names ", cpu, ", which this process may not use"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(
    const CpuBackendConfig& config) {
  RETURN_IF_ERROR(CheckThreads(config));
  const CpuFeatures cpu = DetectCpu();
  const char* forced = config.isa.has_value() ? IsaName(*config.isa)
                                              : std::getenv("PHALANX_ISA");
  ASSIGN_OR_RETURN(const Isa isa, ChooseIsa(cpu, forced));
  const KernelFamily family =
      config.family.value_or(ChooseKernelFamily(cpu, isa));
  if (!Supports(cpu, isa, family)) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel family ", KernelFamilyName(family),
                     " needs AVX512_BF16; the processor is ", cpu.name,
                     ", the instruction set ", IsaName(isa)));
  }
  const bool vnni = config.vnni.value_or(SupportsVnni(cpu, isa));
  if (vnni && !SupportsVnni(cpu, isa)) {
    return absl::FailedPreconditionError(
        absl::StrCat("vnni needs AVX512_VNNI; the processor is ", cpu.name,
                     ", the instruction set ", IsaName(isa)));
  }
  ThreadPoolConfig pool;
  pool.threads = config.threads;
  pool.cpus = config.cpus;
  pool.spin = config.spin;
  try {
    return std::make_unique<CpuBackend>(pool, isa, family, vnni,
                                        config.memory_limit_bytes);
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for ", config.threads, " threads: ", error.what()));
  }
}

}  // namespace phalanx
