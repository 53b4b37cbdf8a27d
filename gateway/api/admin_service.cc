#include "gateway/api/admin_service.h"

#include <memory>

#include "common/version.h"

namespace phalanx {

v1::GetStatusResponse AdminService::Status() const {
  v1::GetStatusResponse status;
  status.set_version(kVersion);
  status.set_model(model_);
  status.set_state(admission_.draining()      ? "draining"
                   : router_.ReadyView().ok() ? "ready"
                                              : "starting");
  status.set_closed(admission_.closed());
  status.set_requests_running(admission_.held());
  status.set_requests_limit(admission_.limit());
  status.set_uptime_seconds(clock_.now_seconds() - started_seconds_);
  status.set_metrics_address(metrics_address_);
  for (int64_t g = 0; g < router_.group_count(); ++g) {
    const auto view = router_.group(g).view();
    v1::GroupStatus* group = status.add_groups();
    group->set_name(router_.group(g).name());
    group->set_state(view->state);
    group->set_epoch(view->epoch);
    group->set_detail(view->detail);
    group->set_streams(router_.load(g));
    for (const v1::RankStatus& rank : view->ranks) *group->add_ranks() = rank;
  }
  return status;
}

grpc::ServerUnaryReactor* AdminService::GetStatus(
    grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
    v1::GetStatusResponse* response) {
  auto* reactor = context->DefaultReactor();
  *response = Status();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace phalanx
