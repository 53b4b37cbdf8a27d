#ifndef PHALANX_WORKER_GROUP_RANK_STUB_H_
#define PHALANX_WORKER_GROUP_RANK_STUB_H_

#include <memory>
#include <string>

#include "worker.grpc.pb.h"

namespace phalanx {

// To the rank that listens at `address`: straight, past any proxy, and tried
// again soon, since ranks start together.
std::unique_ptr<v1::Rank::StubInterface> RankStub(const std::string& address);

}  // namespace phalanx

#endif  // PHALANX_WORKER_GROUP_RANK_STUB_H_
