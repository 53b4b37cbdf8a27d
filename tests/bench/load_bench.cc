// Loading of weights from the page cache, and quantising them offline, beside
// what the machine can copy and write:
//   load_bench [FOLDER [EXPERTS]]
// Writes a checkpoint under FOLDER (default: the system's temporary folder),
// bf16 and then block-FP8, and removes it. Each expert of a layer adds 25 MB;
// 48 of them make 1.75 GB.
//
// GB/s are bytes of bf16 that a rank loads, or `phalanx quantize` reads, per
// second, whatever it makes of them (bf16, int8, int4); of `write`, bytes
// written. "per core": per second of processor time.

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_quantiser.h"
#include "tests/bench/synthetic_checkpoint.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/loader.h"
#include "worker/checkpoint/mapped_file.h"
#include "worker/quantise/quantise_checkpoint.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 3;
constexpr int64_t kCopyBytes = int64_t{1} << 30;  // Of each thread's share.
constexpr int64_t kStepBytes = int64_t{4} << 20;
constexpr int64_t kWriteBytes = int64_t{128} << 10;  // As quantize writes.

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// What moving some bytes took: by the clock, and in seconds of processors,
// which other processes of the machine disturb less.
struct Speed {
  double gbps = 0;
  double gbps_per_core = 0;
};

char* FreshMemory(int64_t bytes) {
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(data != MAP_FAILED);
  madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<char*>(data);
}

// Touches memory and gives it back, so that who asks next gets pages that the
// machine has. A virtual machine's host may hand them out at first touch alone,
// at a tenth of the speed, and take them back a while after they were freed.
void WarmFreeMemory(int64_t bytes) {
  char* memory = FreshMemory(bytes);
  std::memset(memory, 1, static_cast<size_t>(bytes));
  munmap(memory, static_cast<size_t>(bytes));
}

// The best of kRounds; others only ever take time away. `before` is not timed.
Speed BestSpeed(
    int64_t bytes, const std::function<void()>& work,
    const std::function<void()>& before = [] {}) {
  Speed best;
  for (int i = 0; i < kRounds; ++i) {
    before();
    WarmFreeMemory(bytes + bytes / 8);
    const double cpu_start = CpuSeconds();
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    const double gigabytes = static_cast<double>(bytes) / 1e9;
    best.gbps = std::max(best.gbps, gigabytes / taken.count());
    best.gbps_per_core =
        std::max(best.gbps_per_core, gigabytes / (CpuSeconds() - cpu_start));
  }
  return best;
}

// Runs work(t) on `threads` threads.
void OnThreads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) running.emplace_back(work, t);
  for (std::thread& thread : running) thread.join();
}

// memcpy within memory that is there already.
Speed CopySpeed(int threads) {
  const int64_t half = kCopyBytes / 2;
  char* memory = FreshMemory(kCopyBytes);
  std::memset(memory, 1, static_cast<size_t>(kCopyBytes));
  const int64_t share = half / threads;
  const Speed speed = BestSpeed(half, [&] {
    OnThreads(threads, [&](int t) {
      std::memcpy(memory + t * share, memory + half + t * share,
                  static_cast<size_t>(share));
    });
  });
  munmap(memory, static_cast<size_t>(kCopyBytes));
  return speed;
}

// What loading cannot avoid: memcpy from a mapped file, whose pages must be
// mapped in, to memory that nobody has touched yet.
Speed MapAndCopySpeed(int threads, std::span<const std::byte> file) {
  const int64_t bytes =
      std::min(static_cast<int64_t>(file.size()), kCopyBytes) / kStepBytes *
      kStepBytes;
  return BestSpeed(bytes, [&] {
    char* memory = FreshMemory(bytes);
    OnThreads(threads, [&](int t) {
      for (int64_t at = t * kStepBytes; at < bytes; at += threads * kStepBytes)
        std::memcpy(memory + at, file.data() + at, kStepBytes);
    });
    munmap(memory, static_cast<size_t>(bytes));
    MappedFile::DropPages(file);
  });
}

Speed LoadSpeed(const std::string& folder, int threads, WeightFormat format) {
  const auto config = LoadModelConfig(folder);
  CHECK(config.ok());
  const auto shape = MakeLocalShape(*config, 0, 1);
  CHECK(shape.ok());
  const auto checkpoint = Checkpoint::Open(folder);
  CHECK(checkpoint.ok());
  const auto backend = CreateCpuBackend({});
  CHECK(backend.ok());
  LoadProgress progress;
  const auto load = [&] {
    const auto weights = LoadWeights(
        *checkpoint, *config, *shape, **backend,
        {.format = format,
         .run = {
             .threads = threads,
             .on_progress = [&](const LoadProgress& now) { progress = now; }}});
    CHECK(weights.ok());
  };
  load();
  return BestSpeed(progress.total_bytes, load);
}

// The arithmetic of quantising alone, from memory.
Speed QuantiseRowsSpeed(WeightRowQuantiser quantise, int threads,
                        WeightFormat format) {
  constexpr int64_t kCols = 2048;
  constexpr int64_t kRows = 32768;
  std::vector<uint16_t> rows(kRows * kCols);
  std::mt19937 random(1);
  for (uint16_t& x : rows)  // Either sign, magnitudes 2^-7 to 1.
    x = static_cast<uint16_t>((random() & 0x83ff) + 0x3c00);
  return BestSpeed(kRows * kCols * 2, [&] {
    OnThreads(threads, [&](int t) {
      uint8_t codes[kCols];
      uint16_t scales[kCols / kMaxGroupCols];
      for (int64_t row = t; row < kRows; row += threads)
        quantise(rows.data() + row * kCols, kCols, 1, format, codes, scales);
    });
  });
}

// Bytes of a new file, reserved before, to the page cache.
Speed WriteSpeed(const std::string& path, int threads, int64_t bytes) {
  const std::vector<char> data(kWriteBytes, 1);
  const auto write = [&] {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0644);
    CHECK(fd >= 0 && posix_fallocate(fd, 0, bytes) == 0);
    OnThreads(threads, [&](int t) {
      for (int64_t at = t * kWriteBytes; at + kWriteBytes <= bytes;
           at += threads * kWriteBytes)
        CHECK(pwrite(fd, data.data(), kWriteBytes, at) == kWriteBytes);
    });
    CHECK(close(fd) == 0);
  };
  const Speed speed = BestSpeed(bytes, write, [&] { fs::remove(path); });
  fs::remove(path);
  return speed;
}

// `phalanx quantize`, until all of it is on the disk.
Speed OfflineSpeed(const std::string& folder, int threads,
                   WeightFormat format) {
  const std::string out = folder + "-quantised";
  const auto quantise = CpuWeightRowQuantiser();
  CHECK(quantise.ok());
  QuantiseOptions options = {.model_dir = folder,
                             .format = format,
                             .out_dir = out,
                             .quantise_row = *quantise,
                             .run = {.threads = threads}};
  const auto size =
      static_cast<int64_t>(fs::file_size(folder + "/model.safetensors"));
  const auto run = [&] { CHECK(QuantiseCheckpoint(options).ok()); };
  const Speed speed = BestSpeed(size, run, [&] { fs::remove_all(out); });
  fs::remove_all(out);
  return speed;
}

void MeasureOffline(const std::string& folder, int threads) {
  const auto quantise = CpuWeightRowQuantiser();
  CHECK(quantise.ok());
  const auto size =
      static_cast<int64_t>(fs::file_size(folder + "/model.safetensors"));
  const Speed write = WriteSpeed(folder + "/written", threads, size / 2);
  std::printf("     threads=%d  write %.2f (%.2f)", threads, write.gbps,
              write.gbps_per_core);
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    const Speed any = QuantiseRowsSpeed(QuantiseWeightRow, threads, format);
    const Speed best = QuantiseRowsSpeed(*quantise, threads, format);
    const Speed offline = OfflineSpeed(folder, threads, format);
    std::printf(
        "  %s: rows for any processor %.2f (%.2f), for this one %.2f (%.2f), "
        "quantize %.2f (%.2f)",
        WeightFormatName(format), any.gbps, any.gbps_per_core, best.gbps,
        best.gbps_per_core, offline.gbps, offline.gbps_per_core);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void Measure(const std::string& folder, int experts, bool fp8) {
  CHECK(WriteSyntheticCheckpoint(
            {.vocab = 32768, .experts = experts, .fp8 = fp8}, folder)
            .ok());
  const auto file = MappedFile::Open(folder + "/model.safetensors");
  CHECK(file.ok());
  for (const int threads : {1, 2}) {
    const Speed copy = CopySpeed(threads);
    const Speed map = MapAndCopySpeed(threads, (*file)->bytes());
    std::printf(
        "%s threads=%d  GB/s (per core): copy %.2f (%.2f)  map_and_copy %.2f "
        "(%.2f)",
        fp8 ? "fp8 " : "bf16", threads, copy.gbps, copy.gbps_per_core, map.gbps,
        map.gbps_per_core);
    for (const WeightFormat format :
         {WeightFormat::kBf16, WeightFormat::kInt8, WeightFormat::kInt4}) {
      const Speed load = LoadSpeed(folder, threads, format);
      std::printf("  load to %s %.2f (%.2f)", WeightFormatName(format),
                  load.gbps, load.gbps_per_core);
    }
    std::printf("\n");
    std::fflush(stdout);
    MeasureOffline(folder, threads);
  }
}

int Run(const std::string& under, int experts) {
  const std::string folder = under + "/phalanx-load-bench";
  for (const bool fp8 : {false, true}) {
    fs::remove_all(folder);
    Measure(folder, experts, fp8);
  }
  fs::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) {
  const std::string folder =
      argc > 1 ? argv[1] : std::filesystem::temp_directory_path().string();
  return phalanx::Run(folder, argc > 2 ? std::atoi(argv[2]) : 48);
}
