#ifndef PHALANX_WORKER_EXPERTS_MAPPED_BANK_H_
#define PHALANX_WORKER_EXPERTS_MAPPED_BANK_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/expert_reader.h"
#include "worker/checkpoint/model_config.h"
#include "worker/checkpoint/tensor_table.h"
#include "worker/experts/expert_bank.h"

namespace phalanx {

// The mapped checkpoint itself as a bank: a fetch cuts this rank's share out,
// makes bf16 of FP8, quantises where the slots are int8 or int4, and packs it.
// Its pages are the system's to keep or drop, so it may be larger than memory.
// Every thread that fetches keeps scratch of at most one matrix.
class MappedBank final : public ExpertBank {
 public:
  // Takes the checkpoint over; the backend outlives the bank. DATA_LOSS where
  // the checkpoint is not what config asks for (TensorTable::Match).
  static absl::StatusOr<std::unique_ptr<MappedBank>> Create(
      Checkpoint checkpoint, const ModelConfig& config, const LocalShape& shape,
      Backend& backend, WeightFormat format = WeightFormat::kBf16);

  void Fetch(int layer, int expert, int64_t slot,
             ExpertSlots& slots) const override;
  void WillNeed(int layer, int expert) const override;
  // As the slots hold it, whatever is stored.
  int64_t expert_bytes() const override { return expert_bytes_; }
  // Of the files, whole experts: all ranks of the host map the same.
  int64_t bytes() const override { return bytes_; }

 private:
  MappedBank(Checkpoint checkpoint, TensorTable table,
             const ModelConfig& config, const LocalShape& shape,
             Backend& backend, WeightFormat format);

  const Checkpoint checkpoint_;
  const ModelConfig config_;
  const LocalShape shape_;
  const TensorTable table_;
  const ExpertReader reader_;
  Backend& backend_;
  const int64_t expert_bytes_;
  const int64_t bytes_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_MAPPED_BANK_H_
