#include "gateway/cli/serve.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/available_memory.h"
#include "common/byte_size.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/shutdown.h"
#include "common/status.h"
#include "gateway/cli/child_process.h"
#include "gateway/cli/client.h"
#include "gateway/cli/default_model.h"
#include "gateway/cli/launcher.h"
#include "gateway/cli/progress_bar.h"
#include "gateway/cli/run_file.h"
#include "nlohmann/json.hpp"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr int kStartPollMs = 20;
constexpr int kServePollMs = 200;
constexpr double kStopGraceSeconds = 8;

// What the children say, and what of it the parent must know.
class ChildTalk {
 public:
  // `bar` makes room on the terminal for what children write.
  explicit ChildTalk(ProgressBar& bar) : bar_(bar) {}

  void Take(const std::string& name, absl::string_view line) {
    const Entry entry = Entry::parse(line.begin(), line.end(), nullptr,
                                     /*allow_exceptions=*/false);
    bar_.Clear();
    Relay(name, line, entry);
    if (!entry.is_object()) {
      // A refused flag, or a CHECK: the first line says what, the rest more.
      errors_.try_emplace(name, std::string(line));
      return;
    }
    const std::string event = Text(entry, "event");
    if (Text(entry, "level") == "ERROR") errors_[name] = Text(entry, "cause");
    if (name == "gateway" && event == "listening") {
      address = Text(entry, "address");
      admin_address = Text(entry, "admin");
      metrics_address = Text(entry, "metrics");
    }
  }

  // Why this child ended, in its own words; empty if it said nothing.
  std::string ErrorOf(const std::string& name) const {
    const auto found = errors_.find(name);
    return found == errors_.end() ? "" : found->second;
  }

  std::string address;
  std::string admin_address;
  std::string metrics_address;

 private:
  using Entry = nlohmann::ordered_json;

  static std::string Text(const Entry& entry, const char* key) {
    const auto found = entry.find(key);
    return found != entry.end() && found->is_string()
               ? found->get<std::string>()
               : "";
  }

  // As it is, one JSON line an event, for whoever collects stderr; for a
  // person at a terminal shorter.
  static void Relay(const std::string& name, absl::string_view line,
                    const Entry& entry) {
    std::string text(line);
    if (isatty(STDERR_FILENO) == 1 && entry.is_object()) {
      text = absl::StrCat(name, ": ", Text(entry, "event"));
      for (const auto& [key, value] : entry.items())
        if (key != "time" && key != "module" && key != "event" &&
            key != "rank" && !(key == "level" && value == "INFO"))
          absl::StrAppend(&text, " ", key, "=", value.dump());
    }
    text.push_back('\n');
    [[maybe_unused]] const ssize_t n =
        write(STDERR_FILENO, text.data(), text.size());
  }

  ProgressBar& bar_;
  std::map<std::string, std::string> errors_;  // By child.
};

// Where child number `place` serves its metrics: the gateway is 0, rank r is
// r + 1, at neighbouring ports where the flag names one.
std::string MetricsListen(const ServeOptions& options, int place) {
  const std::string& listen = options.metrics_listen;
  const size_t colon = listen.rfind(':');
  int port = 0;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port == 0)
    return listen;
  return absl::StrCat(listen.substr(0, colon), ":", port + place);
}

std::string RankAddress(const std::string& sockets, int rank) {
  return absl::StrCat("unix:", sockets, "/rank", rank, ".sock");
}

std::vector<std::string> WorkerArgs(const ServeOptions& options,
                                    const std::string& sockets, int rank,
                                    int64_t restarts) {
  std::vector<std::string> args = {ProgramFolder() + "/phalanx-worker",
                                   "--model",
                                   options.model_dir,
                                   "--rank",
                                   absl::StrCat(rank),
                                   "--tp-size",
                                   absl::StrCat(options.tp_size),
                                   "--listen",
                                   RankAddress(sockets, rank),
                                   "--leader",
                                   RankAddress(sockets, 0),
                                   "--moe-mode",
                                   options.moe_mode,
                                   "--offload-bank",
                                   options.offload_bank,
                                   "--expert-slots",
                                   absl::StrCat(options.expert_slots),
                                   "--memory-budget",
                                   absl::StrCat(options.memory_budget),
                                   "--device",
                                   options.device,
                                   "--numerics",
                                   options.numerics,
                                   "--max-running",
                                   absl::StrCat(options.max_running),
                                   "--max-model-len",
                                   absl::StrCat(options.max_model_len),
                                   "--prefill-chunk",
                                   absl::StrCat(options.prefill_chunk),
                                   "--kv-blocks",
                                   absl::StrCat(options.kv_blocks),
                                   "--threads",
                                   absl::StrCat(options.threads),
                                   "--metrics-listen",
                                   MetricsListen(options, rank + 1),
                                   "--epoch-floor",
                                   absl::StrCat(restarts)};
  if (!options.pack_cache.empty()) {
    args.push_back("--pack-cache");
    args.push_back(options.pack_cache);
  }
  return args;
}

// A gateway that is restarted must come back where clients know it to be.
std::vector<std::string> GatewayArgs(const ServeOptions& options,
                                     const std::string& sockets,
                                     const ChildTalk& talk) {
  std::vector<std::string> workers;
  for (int rank = 0; rank < options.tp_size; ++rank)
    workers.push_back(RankAddress(sockets, rank));
  std::vector<std::string> args = {
      ProgramFolder() + "/phalanx-gateway",
      "--model",
      options.model_dir,
      "--address",
      talk.address.empty() ? options.address : talk.address,
      "--admin-address",
      talk.admin_address.empty() ? options.admin_address : talk.admin_address,
      "--metrics-listen",
      talk.metrics_address.empty() ? MetricsListen(options, 0)
                                   : talk.metrics_address,
      "--workers",
      absl::StrJoin(workers, ",")};
  if (options.insecure_bind) args.push_back("--insecure-bind");
  if (options.seed.has_value()) {
    args.push_back("--seed");
    args.push_back(absl::StrCat(*options.seed));
  }
  return args;
}

std::vector<ChildSpec> Children(const ServeOptions& options,
                                const std::string& sockets,
                                const ChildTalk& talk) {
  std::vector<ChildSpec> specs;
  specs.push_back({"gateway", [&](int64_t) {
                     return GatewayArgs(options, sockets, talk);
                   }});
  for (int rank = 0; rank < options.tp_size; ++rank)
    specs.push_back({absl::StrCat("rank ", rank), [&, rank](int64_t restarts) {
                       return WorkerArgs(options, sockets, rank, restarts);
                     }});
  return specs;
}

// Until the gateway says that the group is ready; then `moe_mode` is what the
// ranks settled on. OK also when stopped.
absl::Status WaitReady(Launcher& launcher, const ChildTalk& talk,
                       ProgressBar& bar, const std::atomic<int>& stop,
                       std::string& moe_mode) {
  std::unique_ptr<v1::Admin::Stub> admin;
  while (stop.load() == 0) {
    if (const auto death = launcher.Poll(kStartPollMs)) {
      const std::string error = talk.ErrorOf(death->name);
      return absl::UnavailableError(
          absl::StrCat(death->name, " ended with ", death->how, " at start",
                       error.empty() ? "" : ": ", error));
    }
    if (talk.admin_address.empty()) continue;
    if (admin == nullptr)
      admin = v1::Admin::NewStub(ChannelTo(talk.admin_address));
    const auto status = FetchStatus(*admin);
    if (!status.ok()) continue;
    if (const auto loading = LoadingOf(*status))
      bar.Show(*loading);
    else
      bar.Clear();
    if (status->state() == "ready") {
      if (status->groups_size() > 0 && status->groups(0).ranks_size() > 0)
        moe_mode = status->groups(0).ranks(0).worker().moe_mode();
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::Status Supervise(const ServeOptions& options,
                       const std::atomic<int>& stop) {
  MonotonicClock clock;
  const double started = clock.now_seconds();
  ASSIGN_OR_RETURN(const std::string sockets, MakeSocketFolder());
  ProgressBar bar(STDERR_FILENO, clock);
  ChildTalk talk(bar);
  Launcher launcher(Children(options, sockets, talk), clock,
                    [&](const std::string& name, absl::string_view line) {
                      talk.Take(name, line);
                    });
  absl::Status status = launcher.StartAll();
  std::string moe_mode = options.moe_mode;
  if (status.ok()) status = WaitReady(launcher, talk, bar, stop, moe_mode);
  bar.Clear();
  if (status.ok() && stop.load() == 0) {
    WriteRunFile({.address = talk.address,
                  .admin_address = talk.admin_address,
                  .pid = getpid(),
                  .metrics_address = talk.metrics_address})
        .IgnoreError();  // A convenience; the line below says the same.
    absl::PrintF(
        "ready address=%s admin=%s metrics=%s tp_size=%d moe_mode=%s model=%s "
        "seconds=%.2f\n",
        talk.address, talk.admin_address, talk.metrics_address, options.tp_size,
        moe_mode, fs::path(options.model_dir).filename().string(),
        clock.now_seconds() - started);
    std::fflush(stdout);
    while (stop.load() == 0 && status.ok())
      if (const auto death = launcher.Poll(kServePollMs))
        status = launcher.RestartAfter(*death);
  }
  launcher.StopAll(stop.load() > 1 ? 0 : kStopGraceSeconds);
  RemoveRunFile();
  std::error_code ignored;
  fs::remove_all(sockets, ignored);
  return status;
}

void AddMemoryFlags(CLI::App& verb, ServeOptions& o) {
  verb.add_option("--moe-mode", o.moe_mode,
                  "Where experts live; auto: resident if they fit, else "
                  "offload")
      ->check(CLI::IsMember({"auto", "resident", "offload"}))
      ->capture_default_str();
  verb.add_option("--offload-bank", o.offload_bank,
                  "What a rank takes of an expert in offload")
      ->check(CLI::IsMember({"full", "sharded"}))
      ->capture_default_str();
  verb.add_option("--expert-slots", o.expert_slots,
                  "Experts that a rank holds at once in offload, at least "
                  "those of a layer; 0: choose")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->capture_default_str();
  verb.add_option("--pack-cache", o.pack_cache,
                  "Folder that keeps offloaded experts as this processor "
                  "likes them; none if not given");
  verb.add_option_function<std::string>(
      "--memory-budget",
      [&o](const std::string& text) {
        const auto bytes = ParseByteSize("the size", text);
        if (!bytes.ok())
          throw CLI::ValidationError("--memory-budget",
                                     std::string(bytes.status().message()));
        o.memory_budget = *bytes;
      },
      "What each rank may hold of everything, such as 16GiB; 0.9 of what is "
      "free / tp-size if not given");
}

}  // namespace

void AddServeFlags(CLI::App& verb, ServeOptions& o) {
  verb.add_option("--model", o.model_dir,
                  "Folder of the checkpoint; the small model that comes with "
                  "Phalanx if not given");
  verb.add_option("--tp-size", o.tp_size, "Ranks that share the model")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  AddMemoryFlags(verb, o);
  verb.add_option("--device", o.device, "What computes")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb.add_option("--numerics", o.numerics,
                  "auto: the fastest exact kernels of this processor; fma: "
                  "bits that are equal on all")
      ->check(CLI::IsMember({"auto", "fma"}))
      ->capture_default_str();
  verb.add_option("--address", o.address,
                  "Where clients come: HOST:PORT, port 0 takes a free one")
      ->capture_default_str();
  verb.add_option("--admin-address", o.admin_address, "Where operators come")
      ->capture_default_str();
  verb.add_option("--metrics-listen", o.metrics_listen,
                  "Where the gateway serves /metrics: HOST:PORT; rank r at "
                  "PORT + 1 + r. Port 0: free ones, which `phalanx status` "
                  "names; off")
      ->capture_default_str();
  verb.add_option("--max-running", o.max_running, "Sequences computed at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  verb.add_option("--max-model-len", o.max_model_len,
                  "Tokens of prompt and answer; 0: what the model allows")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->capture_default_str();
  verb.add_option("--prefill-chunk", o.prefill_chunk,
                  "Prompt tokens of one sequence in a step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  verb.add_option("--kv-blocks", o.kv_blocks,
                  "KV blocks of 64 tokens on each rank; 0: choose")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->capture_default_str();
  verb.add_option("--threads", o.threads,
                  "Threads of each rank; 0: the CPUs allowed / tp-size")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  verb.add_option("--seed", o.seed,
                  "Seeds of requests that bring none follow from this, in "
                  "order of arrival; drawn if not given");
  verb.add_flag("--insecure-bind", o.insecure_bind,
                "Allow addresses that other hosts can reach, without TLS");
  verb.footer(
      "Prints one line, `ready address=... `, once every rank has generated a "
      "token;\nCtrl-C ends.\n"
      "Examples:\n"
      "  phalanx serve --tp-size 2\n"
      "  phalanx serve --model DIR --address 127.0.0.1:8000 --max-running 64");
}

int RunServe(const ServeOptions& given) {
  std::atomic<int> stop{0};
  ShutdownSignals signals([&](int count) { stop.store(count); });
  ServeOptions options = given;
  absl::Status status;
  if (options.model_dir.empty()) {
    auto model = DefaultModelDir();
    status = model.status();
    if (status.ok()) options.model_dir = *std::move(model);
  }
  // Once, for all ranks and for those that are restarted: between two that
  // load, measurements differ, and auto would choose differently.
  if (options.memory_budget == 0)
    options.memory_budget = DefaultMemoryBudgetBytes(options.tp_size);
  if (status.ok()) status = Supervise(options, stop);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "phalanx serve: %s\n", std::string(status.message()));
  return 1;
}

}  // namespace phalanx
