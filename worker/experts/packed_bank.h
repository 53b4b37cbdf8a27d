#ifndef PHALANX_WORKER_EXPERTS_PACKED_BANK_H_
#define PHALANX_WORKER_EXPERTS_PACKED_BANK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/load_jobs.h"
#include "worker/checkpoint/model_config.h"
#include "worker/experts/expert_bank.h"
#include "worker/experts/pack_file.h"

namespace phalanx {

struct PackedBankConfig {
  std::string dir;           // Where the file is, or is to be.
  std::string model_digest;  // ModelDigest of the checkpoint.
  int threads = 1;           // Of making the file.
  // Of the slots, and so of the file: what is there is ready to compute with.
  WeightFormat format = WeightFormat::kBf16;
  // While this process makes the file, and only then: before the first expert
  // and after each, by one thread at a time. Bytes of the file.
  std::function<void(const LoadProgress&)> on_progress = nullptr;
};

// A file of experts that are packed for the backend, so that a fetch is a plain
// copy. One file for all ranks of a host, of every part of each expert.
class PackedBank final : public ExpertBank {
 public:
  // Opens the file, or makes it from the checkpoint, which the bank does not
  // need afterwards and whose experts' pages are given back. `shape` says how
  // many parts and which is this rank's. The backend outlives the bank. While
  // it makes the file it holds `threads` slots in the backend. From the thread
  // that may call Allocate. Errors are PackFile::OpenOrMake's, the backend's,
  // and DATA_LOSS where the checkpoint is not what config asks for.
  static absl::StatusOr<std::unique_ptr<PackedBank>> Create(
      const Checkpoint& checkpoint, const ModelConfig& config,
      const LocalShape& shape, Backend& backend, const PackedBankConfig& bank);

  void Fetch(int layer, int expert, int64_t slot,
             ExpertSlots& slots) const override;
  void WillNeed(int layer, int expert) const override;
  // As packed, without what the file adds.
  int64_t expert_bytes() const override { return expert_bytes_; }
  int64_t bytes() const override { return file_->bytes(); }

  const std::string& path() const { return file_->path(); }

 private:
  PackedBank(std::unique_ptr<PackFile> file, int64_t part, int64_t expert_bytes,
             Backend& backend)
      : file_(std::move(file)),
        part_(part),
        expert_bytes_(expert_bytes),
        backend_(backend) {}

  const std::unique_ptr<PackFile> file_;
  const int64_t part_;
  const int64_t expert_bytes_;
  Backend& backend_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_EXPERTS_PACKED_BANK_H_
