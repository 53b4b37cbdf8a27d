#include "gateway/api/admin_service.h"

#include <memory>

#include "common/version.h"

namespace phalanx {

grpc::ServerUnaryReactor* AdminService::GetStatus(
    grpc::CallbackServerContext* context, const v1::GetStatusRequest*,
    v1::GetStatusResponse* response) {
  auto* reactor = context->DefaultReactor();
  response->set_version(kVersion);
  response->set_model(model_);
  response->set_state(admission_.closed()        ? "draining"
                      : router_.ReadyView().ok() ? "ready"
                                                 : "starting");
  response->set_requests_running(admission_.held());
  response->set_requests_limit(admission_.limit());
  response->set_uptime_seconds(clock_.now_seconds() - started_seconds_);
  response->set_metrics_address(metrics_address_);
  for (int64_t g = 0; g < router_.group_count(); ++g) {
    const auto view = router_.group(g).view();
    v1::GroupStatus* group = response->add_groups();
    group->set_name(router_.group(g).name());
    group->set_state(view->state);
    group->set_epoch(view->epoch);
    for (const v1::RankStatus& rank : view->ranks) *group->add_ranks() = rank;
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace phalanx
