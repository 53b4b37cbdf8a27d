#ifndef PHALANX_GATEWAY_CLI_SERVICE_CHECK_H_
#define PHALANX_GATEWAY_CLI_SERVICE_CHECK_H_

#include <functional>
#include <string>

#include "common/clock.h"

namespace phalanx {

// What one check came to.
struct CheckResult {
  enum class Outcome { kOk, kFailed, kSkipped };

  std::string name;  // "health"
  Outcome outcome = Outcome::kOk;
  std::string detail;  // What was seen, or what is wrong.
  double seconds = 0;
};

// The service that is checked.
struct CheckedService {
  std::string address;          // Of Inference and of its health.
  std::string admin_address;    // Of Admin; empty: not known.
  double timeout_seconds = 30;  // For each check.
};

// Three checks, each told when it is over: "health" (grpc.health.v1 says
// SERVING), "generation" (a greedy answer of 8 tokens, whole to its summary)
// and "cancel" (a long answer is cancelled after its first token, ends
// CANCELLED/CLIENT, is no longer known to the gateway, and requests_running
// returns to what it was). After one that failed the others are skipped. True
// if all are well.
//
// On a service with other traffic requests_running goes up and down; it is
// watched until it was as low as before. Without the address of Admin it is not
// looked at.
bool CheckService(const CheckedService& service, const Clock& clock,
                  const std::function<void(const CheckResult&)>& on_result);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_SERVICE_CHECK_H_
