#ifndef PHALANX_GATEWAY_API_ADMIN_SERVICE_H_
#define PHALANX_GATEWAY_API_ADMIN_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "admin.grpc.pb.h"
#include "common/clock.h"
#include "gateway/admission/admission.h"
#include "gateway/router/router.h"

namespace phalanx {

// For operators, on a listener of its own. Registered with that server, which
// it outlives; methods run on gRPC's threads.
class AdminService final : public v1::Admin::CallbackService {
 public:
  // All are lent and outlive this. `metrics_address`: where they are served.
  AdminService(std::string model, const Admission& admission,
               const Router& router, const Clock& clock,
               std::string metrics_address)
      : model_(std::move(model)),
        metrics_address_(std::move(metrics_address)),
        admission_(admission),
        router_(router),
        clock_(clock),
        started_seconds_(clock.now_seconds()) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

  // What GetStatus answers. Any thread.
  v1::GetStatusResponse Status() const;

 private:
  const std::string model_;
  const std::string metrics_address_;
  const Admission& admission_;
  const Router& router_;
  const Clock& clock_;
  const double started_seconds_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_ADMIN_SERVICE_H_
