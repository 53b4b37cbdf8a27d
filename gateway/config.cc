#include "gateway/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/version.h"

namespace phalanx {
namespace {

// Without TLS a listener is for this host only, unless somebody insists.
bool IsLocal(const std::string& address) {
  for (const char* prefix : {"127.", "localhost:", "[::1]:", "unix:"})
    if (address.rfind(prefix, 0) == 0) return true;
  return false;
}

void CheckBind(const char* flag, const std::string& address, bool insecure) {
  if (insecure || IsLocal(address)) return;
  throw CLI::ValidationError(
      flag, address +
                " is reachable from other hosts without TLS; must be a "
                "loopback address, or add --insecure-bind");
}

constexpr size_t kMaxName = 63;

// A name is a label of metrics.
bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

// NAME=ADDR0,ADDR1,...; throws what CLI11 prints.
GroupSpec ParseGroup(const std::string& text) {
  const size_t equals = text.find('=');
  GroupSpec group;
  group.name = text.substr(0, equals);
  if (equals == std::string::npos || !IsName(group.name))
    throw CLI::ValidationError(
        "--groups", absl::StrCat(text,
                                 " must be NAME=ADDR0,ADDR1,..., NAME of "
                                 "1 to ",
                                 kMaxName, " letters, digits, - _ ."));
  group.addresses = absl::StrSplit(text.substr(equals + 1), ',');
  return group;
}

// Both flags name groups; they are for two kinds of users.
std::vector<GroupSpec> GroupsOf(const std::vector<std::string>& groups,
                                const std::vector<std::string>& workers) {
  if (!workers.empty() && !groups.empty())
    throw CLI::ValidationError("--workers",
                               "names the only group; not with --groups");
  std::vector<GroupSpec> specs;
  if (!workers.empty()) specs.push_back({.name = "0", .addresses = workers});
  for (const std::string& text : groups) specs.push_back(ParseGroup(text));
  if (specs.empty()) throw CLI::RequiredError("--workers or --groups");
  std::set<std::string> names;
  std::set<std::string> addresses;
  for (const GroupSpec& spec : specs) {
    if (!names.insert(spec.name).second)
      throw CLI::ValidationError("--groups", spec.name + " is named twice");
    for (const std::string& address : spec.addresses)
      if (address.empty() || !addresses.insert(address).second)
        throw CLI::ValidationError(
            workers.empty() ? "--groups" : "--workers",
            absl::StrCat("group ", spec.name, ": address \"", address,
                         "\" is empty or named twice"));
  }
  return specs;
}

void AddResumeFlags(CLI::App& app, GatewayConfig& config) {
  app.add_option("--resume-max", config.resume_max,
                 "Lost groups that a stream goes on after; those that it was "
                 "in no step of are not counted")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_option("--resume-wait-seconds", config.resume_wait_seconds,
                 "Seconds that a stream without a group waits for one")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option(
      "--resume-key-file", config.resume_key_file,
      "File of 32 to 4096 bytes that all gateways share, so that "
      "each resumes streams of the others; without it, only its own");
}

void AddDrainFlags(CLI::App& app, GatewayConfig& config) {
  app.add_option("--drain-delay", config.drain_delay_seconds,
                 "Seconds from SIGTERM, with health NOT_SERVING, until new "
                 "requests are refused: as long as balancers need to notice")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--drain-timeout", config.drain_timeout_seconds,
                 "Seconds that running streams have from then on; what is left "
                 "ends UNAVAILABLE/DRAINING, to be resumed elsewhere")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
}

}  // namespace

int ParseGatewayFlags(int argc, char** argv, GatewayConfig& config) {
  CLI::App app(
      "phalanx-gateway: the public gRPC service. Keeps nothing but the "
      "requests "
      "in flight; any number of replicas may serve the same groups.\n"
      "SIGTERM drains, a second one hands streams over at once; SIGQUIT prints "
      "its state as JSON.");
  app.set_version_flag("--version", std::string("phalanx-gateway ") + kVersion);
  app.add_option("--model", config.model_dir,
                 "Folder with tokenizer.json and chat_template.jinja; without "
                 "a tokenizer in it, token ids are served; must be given");
  app.add_option("--model-name", config.model_name,
                 "What clients call it; the folder's name if not given");
  app.add_option("--address", config.address,
                 "Where clients come: HOST:PORT, port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--admin-address", config.admin_address,
                 "Where operators come")
      ->capture_default_str();
  app.add_option("--metrics-listen", config.metrics_listen,
                 "Where to serve /metrics, /healthz and /readyz by HTTP: "
                 "HOST:PORT, port 0 takes a free one; off")
      ->capture_default_str();
  std::vector<std::string> workers;
  app.add_option("--workers", workers,
                 "Addresses of ranks 0, 1, ..., comma-separated, of the only "
                 "group, which is then named 0")
      ->delimiter(',');
  std::vector<std::string> groups;
  app.add_option("--groups", groups,
                 "NAME=ADDR0,ADDR1,...: a group and its ranks, HOST:PORT (HOST "
                 "may be a name of DNS) or unix:PATH; once for each group, or "
                 "with ; between them")
      ->delimiter(';');
  app.add_option("--max-requests", config.max_requests,
                 "Requests held at once, waiting ones included")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--seed", config.seed,
                 "Seeds of requests that bring none follow from this, in order "
                 "of arrival; drawn if not given");
  AddDrainFlags(app, config);
  AddResumeFlags(app, config);
  app.add_flag("--insecure-bind", config.insecure_bind,
               "Allow addresses that other hosts can reach, without TLS");
  try {
    app.parse(argc, argv);
    // Not ->required(): that would hide an unknown flag.
    if (config.model_dir.empty()) throw CLI::RequiredError("--model");
    config.groups = GroupsOf(groups, workers);
    CheckBind("--address", config.address, config.insecure_bind);
    CheckBind("--admin-address", config.admin_address, config.insecure_bind);
    if (config.metrics_listen != "off")
      CheckBind("--metrics-listen", config.metrics_listen,
                config.insecure_bind);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return -1;
}

}  // namespace phalanx
