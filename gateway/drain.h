#ifndef PHALANX_GATEWAY_DRAIN_H_
#define PHALANX_GATEWAY_DRAIN_H_

#include <grpcpp/grpcpp.h>

#include "common/clock.h"
#include "common/mutex.h"
#include "gateway/admission/admission.h"
#include "gateway/api/active_requests.h"
#include "gateway/api/inference_service.h"

namespace phalanx {

// How often a process was asked to end. Told by the signals' thread, awaited by
// main's.
class StopCount {
 public:
  void Set(int count);

  // Until it is at least `count`.
  void Await(int count);
  // The same for at most so long; whether it is.
  bool AwaitFor(int count, double seconds);

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Ends the public server with no stream lost. Health says already that nobody
// should come. For the delay all goes on; then new requests are refused
// DRAINING, and soon no connection is taken any more and those that are open
// get GOAWAY; streams go on until none is left or the timeout is over, when
// the rest end DRAINING. A second stop ends all waiting. Main's thread.
class Drain {
 public:
  struct Times {
    double delay_seconds = 0;
    double timeout_seconds = 0;  // From the end of the delay.
  };
  // All are lent.
  struct Parts {
    grpc::Server& server;
    StopCount& stop;
    Admission& admission;
    ActiveRequests& active;
    const InferenceService& service;
  };

  explicit Drain(const Parts& parts) : parts_(parts) {}

  // Returns when the server has ended.
  void Run(const Times& times);

 private:
  bool NoStream() const;
  void AwaitNoStream(double until_seconds);
  void HandOver();

  const Parts parts_;
  const MonotonicClock clock_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_DRAIN_H_
