#ifndef PHALANX_GATEWAY_CLI_CHECK_H_
#define PHALANX_GATEWAY_CLI_CHECK_H_

#include <CLI/CLI.hpp>
#include <string>

namespace phalanx {

// The flags of `phalanx check`.
struct CheckOptions {
  std::string address;
  std::string admin_address;
  double timeout_seconds = 30;
  std::string model_dir;
  std::string manifest;
  bool write_manifest = false;
  bool json = false;
};

void AddCheckFlags(CLI::App& verb, CheckOptions& options);

// Looks whether a service works, or the files of a model are what they should
// be, or both: a line for each check. The exit code: 1 if any of it is not so.
int RunCheck(const CheckOptions& options);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_CHECK_H_
