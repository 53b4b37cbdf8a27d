#include "tests/support/route_log.h"

#include <utility>

#include "common/status.h"
#include "kernels/forwarding_backend.h"

namespace phalanx {
namespace {

// Hands every op on.
class LoggingOps final : public Ops {
 public:
  LoggingOps(Backend& backend, RouteLog* log)
      : backend_(backend), ops_(backend.ops()), log_(log) {}

  void Embed(Tensor ids, Tensor table, int64_t first_id, Tensor y) override {
    ops_.Embed(ids, table, first_id, y);
  }
  void SelectOwner(Tensor ids, int64_t rows_per_rank, Tensor gathered,
                   Tensor y) override {
    ops_.SelectOwner(ids, rows_per_rank, gathered, y);
  }
  void GatherRows(Tensor x, Tensor rows, Tensor y) override {
    ops_.GatherRows(x, rows, y);
  }
  void Copy(Tensor x, Tensor y) override { ops_.Copy(x, y); }
  void MatMul(Tensor x, const PackedWeight& w, Tensor y) override {
    ops_.MatMul(x, w, y);
  }
  void GateUp(Tensor x, const PackedWeight& w, Tensor y) override {
    ops_.GateUp(x, w, y);
  }
  void MatMulSliced(Tensor x, const PackedWeight& w, int slices,
                    Tensor y) override {
    ops_.MatMulSliced(x, w, slices, y);
  }
  void Route(Tensor logits, bool renormalise, Routing routing) override {
    ops_.Route(logits, renormalise, routing);
    std::vector<int32_t> ids(routing.expert.elements());
    backend_.Download(routing.expert, ids.data());
    log_->push_back(std::move(ids));
  }
  void ExpertsGateUp(Tensor x, const PackedWeight& w, Routing routing,
                     Tensor hidden) override {
    ops_.ExpertsGateUp(x, w, routing, hidden);
  }
  void ExpertsDown(Tensor hidden, const PackedWeight& w, Routing routing,
                   Tensor shared_hidden, const PackedWeight& shared_w,
                   Tensor shared_gate, int slices, Tensor y) override {
    ops_.ExpertsDown(hidden, w, routing, shared_hidden, shared_w, shared_gate,
                     slices, y);
  }
  void RmsNorm(Tensor x, Tensor w, float eps, Tensor y) override {
    ops_.RmsNorm(x, w, eps, y);
  }
  void GatedRmsNorm(Tensor x, Tensor z, Tensor w, float eps,
                    Tensor y) override {
    ops_.GatedRmsNorm(x, z, w, eps, y);
  }
  void L2Norm(Tensor x, float scale, Tensor y) override {
    ops_.L2Norm(x, scale, y);
  }
  void Add(Tensor a, Tensor b, Tensor y) override { ops_.Add(a, b, y); }
  void Round(Tensor x, Tensor y) override { ops_.Round(x, y); }
  void MulSigmoid(Tensor x, Tensor gate, Tensor y) override {
    ops_.MulSigmoid(x, gate, y);
  }
  void Rope(Tensor positions, Tensor inv_freq, Tensor x) override {
    ops_.Rope(positions, inv_freq, x);
  }
  void StoreKv(Tensor k, Tensor v, Tensor places, Tensor keys,
               Tensor values) override {
    ops_.StoreKv(k, v, places, keys, values);
  }
  void PagedAttention(Tensor q, Tensor keys, Tensor values,
                      const Sequences& sequences, float scale,
                      Tensor y) override {
    ops_.PagedAttention(q, keys, values, sequences, scale, y);
  }
  void ConvSilu(Tensor x, Tensor w, const Sequences& sequences, Tensor state,
                Tensor y) override {
    ops_.ConvSilu(x, w, sequences, state, y);
  }
  void GdnGates(Tensor a, Tensor b, Tensor a_log, Tensor dt_bias, Tensor g,
                Tensor beta) override {
    ops_.GdnGates(a, b, a_log, dt_bias, g, beta);
  }
  void GatedDelta(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                  const Sequences& sequences, Tensor state, Tensor y) override {
    ops_.GatedDelta(q, k, v, g, beta, sequences, state, y);
  }

 private:
  Backend& backend_;
  Ops& ops_;
  RouteLog* log_;
};

class LoggingBackend final : public ForwardingBackend {
 public:
  LoggingBackend(std::unique_ptr<Backend> inner, RouteLog* log)
      : ForwardingBackend(std::move(inner)), ops_(this->inner(), log) {}

  Ops& ops() override { return ops_; }

 private:
  LoggingOps ops_;
};

}  // namespace

BackendFactory LogRoutes(BackendFactory inner, RouteLog* log) {
  return [inner = std::move(inner),
          log]() -> absl::StatusOr<std::unique_ptr<Backend>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, inner());
    return std::make_unique<LoggingBackend>(std::move(backend), log);
  };
}

}  // namespace phalanx
