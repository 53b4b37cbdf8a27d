#ifndef PHALANX_WORKER_BENCH_METERED_OPS_H_
#define PHALANX_WORKER_BENCH_METERED_OPS_H_

#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "kernels/backend.h"
#include "kernels/ops.h"
#include "worker/bench/work.h"

namespace phalanx {

// Hands every op on, and counts what it asked of the machine: some additions an
// op. On demand also how long each took, by part, where ops are done when they
// return; that disturbs, so it is for steps whose time is not wanted. The
// engine thread's.
class MeteredOps final : public Ops {
 public:
  explicit MeteredOps(Backend& backend)
      : backend_(backend), ops_(backend.ops()) {}

  // The weights of the last norm and of the vocabulary's product, by which the
  // head's ops are known. Before the first step.
  void SetHead(const void* norm, const void* lm_head) {
    norm_ = norm;
    lm_head_ = lm_head;
  }

  // Sums from now on.
  void Restart(bool timing);
  const Work& work() const { return work_; }
  const PartSeconds& seconds() const { return seconds_; }
  // For what is no op.
  void AddSeconds(Part part, double seconds) {
    seconds_[static_cast<size_t>(part)] += seconds;
  }

  void Embed(Tensor ids, Tensor table, int64_t first_id, Tensor y) override;
  void SelectOwner(Tensor ids, int64_t rows_per_rank, Tensor gathered,
                   Tensor y) override;
  void GatherRows(Tensor x, Tensor rows, Tensor y) override;
  void Copy(Tensor x, Tensor y) override;
  void MatMul(Tensor x, const PackedWeight& w, Tensor y) override;
  void GateUp(Tensor x, const PackedWeight& w, Tensor y) override;
  void MatMulSliced(Tensor x, const PackedWeight& w, int slices,
                    Tensor y) override;
  void Route(Tensor logits, bool renormalise, Routing routing) override;
  void ExpertsGateUp(Tensor x, const PackedWeight& w, Routing routing,
                     Tensor hidden) override;
  void ExpertsDown(Tensor hidden, const PackedWeight& w, Routing routing,
                   Tensor shared_hidden, const PackedWeight& shared_w,
                   Tensor shared_gate, int slices, Tensor y) override;
  void RmsNorm(Tensor x, Tensor w, float eps, Tensor y) override;
  void GatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps, Tensor y) override;
  void L2Norm(Tensor x, float scale, Tensor y) override;
  void Add(Tensor a, Tensor b, Tensor y) override;
  void Round(Tensor x, Tensor y) override;
  void MulSigmoid(Tensor x, Tensor gate, Tensor y) override;
  void Rope(Tensor positions, Tensor inv_freq, Tensor x) override;
  void StoreKv(Tensor k, Tensor v, Tensor places, Tensor keys,
               Tensor values) override;
  void PagedAttention(Tensor q, Tensor keys, Tensor values,
                      const Sequences& sequences, float scale,
                      Tensor y) override;
  void ConvSilu(Tensor x, Tensor w, const Sequences& sequences, Tensor state,
                Tensor y) override;
  void GdnGates(Tensor a, Tensor b, Tensor a_log, Tensor dt_bias, Tensor g,
                Tensor beta) override;
  void GatedDelta(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                  const Sequences& sequences, Tensor state, Tensor y) override;

 private:
  template <typename Op>
  void Run(Part part, Op op);
  void CountProduct(Part part, int64_t rows, const PackedWeight& w,
                    int64_t matrices = 1);
  void CountRouting(std::vector<int32_t>& offsets);  // Spoils them.
  void CountExperts(const PackedWeight& w);
  std::vector<int32_t>& Host(Tensor values);

  Backend& backend_;
  Ops& ops_;
  const void* norm_ = nullptr;
  const void* lm_head_ = nullptr;
  const MonotonicClock clock_;
  bool timing_ = false;
  double last_end_ = 0;
  // How the last routing shared its tokens out: so many experts got so many.
  struct Crowd {
    int64_t rows = 0;
    int64_t experts = 0;
  };
  std::vector<Crowd> crowds_;
  Work work_;
  PartSeconds seconds_ = {};
  std::vector<int32_t> host_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_METERED_OPS_H_
