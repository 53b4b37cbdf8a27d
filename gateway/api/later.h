#ifndef PHALANX_GATEWAY_API_LATER_H_
#define PHALANX_GATEWAY_API_LATER_H_

#include <functional>

namespace phalanx {

// Calls `what` once, on one of gRPC's threads, when so many seconds have
// passed. It is never called off, so it must hold weakly what it is about. Not
// under a lock: gRPC may call back from inside.
void CallLater(double seconds, std::function<void()> what);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_LATER_H_
