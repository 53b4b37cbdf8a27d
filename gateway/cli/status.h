#ifndef PHALANX_GATEWAY_CLI_STATUS_H_
#define PHALANX_GATEWAY_CLI_STATUS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "admin.pb.h"

namespace phalanx {

// The flags of `phalanx status`.
struct StatusOptions {
  std::string address;  // Of Admin.
  bool json = false;
};

void AddStatusFlags(CLI::App& verb, StatusOptions& options);

// The screen: a line for the gateway, and for each group a line and a table of
// its ranks.
std::string StatusText(const v1::GetStatusResponse& status);

// Prints it; the exit code, 1 if no gateway answers.
int RunStatus(const StatusOptions& options);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_STATUS_H_
