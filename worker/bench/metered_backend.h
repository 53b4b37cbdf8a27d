#ifndef PHALANX_WORKER_BENCH_METERED_BACKEND_H_
#define PHALANX_WORKER_BENCH_METERED_BACKEND_H_

#include <memory>
#include <utility>

#include "kernels/forwarding_backend.h"
#include "worker/bench/metered_ops.h"

namespace phalanx {

// The backend inside it, but for its ops, which are metered.
class MeteredBackend final : public ForwardingBackend {
 public:
  explicit MeteredBackend(std::unique_ptr<Backend> inner)
      : ForwardingBackend(std::move(inner)), ops_(this->inner()) {}

  MeteredOps& metered() { return ops_; }

  Ops& ops() override { return ops_; }

 private:
  MeteredOps ops_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_METERED_BACKEND_H_
