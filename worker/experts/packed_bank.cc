#include "worker/experts/packed_bank.h"

#include <span>
#include <vector>

#include "common/check.h"
#include "common/mutex.h"
#include "common/status.h"
#include "common/units.h"
#include "worker/checkpoint/expert_reader.h"
#include "worker/checkpoint/load_jobs.h"
#include "worker/checkpoint/tensor_table.h"
#include "worker/experts/expert_slots.h"

namespace phalanx {
namespace {

PackedSize SizeOf(const PackedWeight& weight) {
  return {.rows = weight.rows,
          .cols = weight.cols,
          .matrix_bytes = weight.matrix_bytes};
}

// Every part of each expert, from the checkpoint through the backend's packing.
class Packer {
 public:
  // `slots` has one for each thread.
  Packer(const TensorTable& table, const ModelConfig& config,
         std::span<const LocalShape> parts, Backend& backend,
         const PackKey& key, ExpertSlots& slots)
      : backend_(backend),
        key_(key),
        slots_(slots),
        scratch_(static_cast<size_t>(slots.gate_up.count)) {
    for (const LocalShape& part : parts)
      readers_.emplace_back(table, config, part);
  }

  void Pack(int thread, int layer, int expert, std::span<std::byte> out) {
    std::vector<uint16_t>& scratch = scratch_[static_cast<size_t>(thread)];
    std::byte* at = out.data();
    for (const ExpertReader& reader : readers_) {
      backend_.PackWeight(reader.GateUp(layer, expert, &scratch), thread,
                          slots_.gate_up);
      backend_.ReadPacked(slots_.gate_up, thread, at);
      at += RoundUp(key_.gate_up.matrix_bytes, kPackAlignment);
      backend_.PackWeight(reader.Down(layer, expert, &scratch), thread,
                          slots_.down);
      backend_.ReadPacked(slots_.down, thread, at);
      at += RoundUp(key_.down.matrix_bytes, kPackAlignment);
    }
    CHECK(at == out.data() + out.size());
    readers_.front().Drop(layer, expert);
  }

 private:
  Backend& backend_;
  const PackKey& key_;
  ExpertSlots& slots_;
  std::vector<ExpertReader> readers_;
  std::vector<std::vector<uint16_t>> scratch_;  // One a thread.
};

// Counts experts that are packed, whatever thread packs them.
class PackProgress {
 public:
  PackProgress(const PackKey& key,
               const std::function<void(const LoadProgress&)>& on_progress)
      : expert_bytes_(key.expert_bytes()), on_progress_(on_progress) {
    progress_.total_bytes = key.layers * key.experts * expert_bytes_;
  }

  void Begin() {
    MutexLock lock(mutex_);
    if (begun_) return;
    begun_ = true;
    Tell();
  }
  void Packed() {
    MutexLock lock(mutex_);
    progress_.done_bytes += expert_bytes_;
    Tell();
  }

 private:
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (on_progress_) on_progress_(progress_);
  }

  const int64_t expert_bytes_;
  const std::function<void(const LoadProgress&)>& on_progress_;
  Mutex mutex_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  LoadProgress progress_ ABSL_GUARDED_BY(mutex_);
};

// The shapes of all ranks' parts: one whole, or those of a group of as many.
absl::StatusOr<std::vector<LocalShape>> AllParts(const ModelConfig& config,
                                                 int parts) {
  std::vector<LocalShape> shapes;
  for (int part = 0; part < parts; ++part) {
    ASSIGN_OR_RETURN(shapes.emplace_back(),
                     MakeLocalShape(config, part, parts));
  }
  return shapes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedBank>> PackedBank::Create(
    const Checkpoint& checkpoint, const ModelConfig& config,
    const LocalShape& shape, Backend& backend, const PackedBankConfig& bank) {
  CHECK(bank.threads >= 1);
  MapLargeTemporaries();
  ASSIGN_OR_RETURN(const TensorTable table,
                   TensorTable::Match(checkpoint, config));
  ASSIGN_OR_RETURN(const std::vector<LocalShape> parts,
                   AllParts(config, shape.moe_parts));
  ASSIGN_OR_RETURN(
      ExpertSlots slots,
      AllocateExpertSlots(
          backend, ExpertShapesOf(config, shape, bank.format, bank.threads),
          "packing experts"));
  const PackKey key = {.model_digest = bank.model_digest,
                       .packed_layout = backend.packed_layout(),
                       .format = bank.format,
                       .parts = shape.moe_parts,
                       .layers = config.num_layers(),
                       .experts = config.num_experts,
                       .gate_up = SizeOf(slots.gate_up),
                       .down = SizeOf(slots.down)};
  Packer packer(table, config, parts, backend, key, slots);
  PackProgress progress(key, bank.on_progress);
  ASSIGN_OR_RETURN(
      std::unique_ptr<PackFile> file,
      PackFile::OpenOrMake(
          bank.dir, key, bank.threads,
          [&](int thread, int layer, int expert, std::span<std::byte> out) {
            progress.Begin();
            packer.Pack(thread, layer, expert, out);
            progress.Packed();
          }));
  return std::unique_ptr<PackedBank>(new PackedBank(
      std::move(file), shape.moe_part,
      key.gate_up.matrix_bytes + key.down.matrix_bytes, backend));
}

void PackedBank::Fetch(int layer, int expert, int64_t slot,
                       ExpertSlots& slots) const {
  backend_.StorePacked(file_->gate_up(layer, expert, part_), slot,
                       slots.gate_up);
  backend_.StorePacked(file_->down(layer, expert, part_), slot, slots.down);
}

void PackedBank::WillNeed(int layer, int expert) const {
  file_->WillNeed(layer, expert, part_);
}

}  // namespace phalanx
