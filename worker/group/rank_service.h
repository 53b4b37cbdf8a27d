#ifndef PHALANX_WORKER_GROUP_RANK_SERVICE_H_
#define PHALANX_WORKER_GROUP_RANK_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "worker.grpc.pb.h"
#include "worker/group/formation_inbox.h"
#include "worker/group/membership.h"

namespace phalanx {

// What ranks say to each other. Rank 0 has a membership and answers Join and
// Heartbeat; the others have an inbox and answer FormGroup; both take Abort. A
// call for the other role is FAILED_PRECONDITION/WRONG_STATE. Registered with
// the worker's server, which it outlives.
class RankService final : public v1::Rank::CallbackService {
 public:
  // Exactly one is not null; both outlive this.
  RankService(Membership* membership, FormationInbox* inbox)
      : membership_(membership), inbox_(inbox) {}

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const v1::JoinRequest* request,
                                 v1::JoinResponse* response) override;
  grpc::ServerUnaryReactor* FormGroup(grpc::CallbackServerContext* context,
                                      const v1::FormGroupRequest* request,
                                      v1::FormGroupResponse* response) override;
  grpc::ServerBidiReactor<v1::HeartbeatMessage, v1::HeartbeatMessage>*
  Heartbeat(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const v1::AbortRequest* request,
                                  v1::AbortResponse* response) override;

 private:
  Membership* membership_;
  FormationInbox* inbox_;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_GROUP_RANK_SERVICE_H_
