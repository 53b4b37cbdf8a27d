#include "gateway/cli/serve.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
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
#include "gateway/cli/child_talk.h"
#include "gateway/cli/client.h"
#include "gateway/cli/default_model.h"
#include "gateway/cli/launcher.h"
#include "gateway/cli/progress_bar.h"
#include "gateway/cli/run_file.h"
#include "gateway/cli/waker.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr int kStartPollMs = 20;
// Signals, lines and deaths end a poll; nothing else changes.
constexpr int kServePollMs = 1000;
// What a child may take to end beside its drain.
constexpr double kStopGraceSeconds = 8;
// And when it is to end at once: a gateway has streams to hand over.
constexpr double kHandOverSeconds = 3;
constexpr double kFastGraceSeconds = 2;

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

// What children share, by path.
struct Places {
  std::string sockets;          // Folder of the ranks' sockets.
  std::string resume_key_file;  // Of the gateway.
};

std::string RankAddress(const std::string& sockets, int rank) {
  return absl::StrCat("unix:", sockets, "/rank", rank, ".sock");
}

std::vector<std::string> WorkerArgs(const ServeOptions& options,
                                    const std::string& sockets, int rank,
                                    int64_t epoch_floor) {
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
                                   "--weights",
                                   options.weights,
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
                                   absl::StrCat(epoch_floor),
                                   "--step-timeout",
                                   absl::StrCat(options.step_timeout_seconds),
                                   "--drain-timeout",
                                   absl::StrCat(options.drain_timeout_seconds)};
  if (!options.pack_cache.empty()) {
    args.push_back("--pack-cache");
    args.push_back(options.pack_cache);
  }
  return args;
}

// A gateway that is restarted must come back where clients know it to be.
std::vector<std::string> GatewayArgs(const ServeOptions& options,
                                     const Places& places,
                                     const ChildTalk& talk) {
  std::vector<std::string> workers;
  for (int rank = 0; rank < options.tp_size; ++rank)
    workers.push_back(RankAddress(places.sockets, rank));
  std::vector<std::string> args = {
      ProgramFolder() + "/phalanx-gateway",
      "--model",
      options.model_dir,
      "--address",
      talk.address().empty() ? options.address : talk.address(),
      "--admin-address",
      talk.admin_address().empty() ? options.admin_address
                                   : talk.admin_address(),
      "--metrics-listen",
      talk.metrics_address().empty() ? MetricsListen(options, 0)
                                     : talk.metrics_address(),
      "--workers",
      absl::StrJoin(workers, ","),
      "--resume-key-file",
      places.resume_key_file,
      "--drain-delay",
      absl::StrCat(options.drain_delay_seconds),
      "--drain-timeout",
      absl::StrCat(options.drain_timeout_seconds)};
  if (options.insecure_bind) args.push_back("--insecure-bind");
  if (options.seed.has_value()) {
    args.push_back("--seed");
    args.push_back(absl::StrCat(*options.seed));
  }
  return args;
}

// Child number 0; rank r is number r + 1.
constexpr size_t kGateway = 0;

std::vector<ChildSpec> Children(const ServeOptions& options,
                                const Places& places, const ChildTalk& talk) {
  std::vector<ChildSpec> specs;
  specs.push_back(
      {"gateway", [&](int64_t) { return GatewayArgs(options, places, talk); }});
  for (int rank = 0; rank < options.tp_size; ++rank)
    specs.push_back({absl::StrCat("rank ", rank), [&, rank](int64_t restarts) {
                       // Above every epoch so far, also where all ranks died at
                       // once.
                       return WorkerArgs(options, places.sockets, rank,
                                         std::max(restarts, talk.epoch()));
                     }});
  return specs;
}

// What signals ask of the parent. Written by the signal thread.
struct Wishes {
  std::atomic<int> stops{0};  // SIGTERM and SIGINT.
  std::atomic<bool> quit{false};
  Waker waker;
};

// Poll, and SIGQUIT for all if it was asked for.
std::optional<Launcher::Death> Attend(Launcher& launcher, Wishes& wishes,
                                      int timeout_ms) {
  auto death = launcher.Poll(timeout_ms);
  if (wishes.quit.exchange(false)) launcher.SignalAll(SIGQUIT);
  return death;
}

// Lets the children end as serving.md says: the gateway first, while the ranks
// go on for the streams it still has, then the ranks. After a second signal the
// gateway hands its streams over at once, and nobody waits for the ranks, whose
// end is then the caller's part; a third does not wait for the gateway either.
void StopInOrder(Launcher& launcher, Wishes& wishes, const Clock& clock,
                 const ServeOptions& options) {
  const auto wait = [&](int stops, double seconds, const auto& running) {
    const double until = clock.now_seconds() + seconds;
    while (running() && wishes.stops.load() < stops &&
           clock.now_seconds() < until)
      if (const auto death = Attend(launcher, wishes, kServePollMs))
        launcher.RestartAfter(*death);
  };
  const auto gateway_runs = [&] { return launcher.running(kGateway); };
  const double drain = options.drain_timeout_seconds + kStopGraceSeconds;
  launcher.Retire(kGateway);
  launcher.Signal(kGateway, SIGTERM);
  wait(2, options.drain_delay_seconds + drain, gateway_runs);
  launcher.Signal(kGateway, SIGINT);
  wait(3, kHandOverSeconds, gateway_runs);
  for (int rank = 0; rank < options.tp_size; ++rank) launcher.Retire(rank + 1);
  if (wishes.stops.load() >= 2) return;
  launcher.SignalAll(SIGTERM);
  wait(2, drain, [&] { return launcher.any_running(); });
}

// Until the gateway says that the group is ready; then `moe_mode` is what the
// ranks settled on. OK also when stopped.
absl::Status WaitReady(Launcher& launcher, const ChildTalk& talk,
                       ProgressBar& bar, Wishes& wishes,
                       std::string& moe_mode) {
  std::unique_ptr<v1::Admin::Stub> admin;
  while (wishes.stops.load() == 0) {
    if (const auto death = Attend(launcher, wishes, kStartPollMs)) {
      const std::string error = talk.ErrorOf(death->name);
      return absl::UnavailableError(
          absl::StrCat(death->name, " ended with ", death->how, " at start",
                       error.empty() ? "" : ": ", error));
    }
    if (talk.admin_address().empty()) continue;
    if (admin == nullptr)
      admin = v1::Admin::NewStub(ChannelTo(talk.admin_address()));
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

// Says, here and in the run file, where the service is.
void TellReady(const ServeOptions& options, const ChildTalk& talk,
               const std::string& moe_mode, double seconds) {
  WriteRunFile({.address = talk.address(),
                .admin_address = talk.admin_address(),
                .pid = getpid(),
                .metrics_address = talk.metrics_address()})
      .IgnoreError();  // A convenience; the line below says the same.
  absl::PrintF(
      "ready address=%s admin=%s metrics=%s tp_size=%d moe_mode=%s model=%s "
      "seconds=%.2f\n",
      talk.address(), talk.admin_address(), talk.metrics_address(),
      options.tp_size, moe_mode,
      fs::path(options.model_dir).filename().string(), seconds);
  std::fflush(stdout);
}

absl::Status Supervise(const ServeOptions& options, Wishes& wishes) {
  MonotonicClock clock;
  const double started = clock.now_seconds();
  Places places;
  ASSIGN_OR_RETURN(places.resume_key_file, ResumeKeyFile());
  ASSIGN_OR_RETURN(places.sockets, MakeSocketFolder());
  ProgressBar bar(STDERR_FILENO, clock);
  ChildTalk talk(bar);
  Launcher launcher(Children(options, places, talk), clock,
                    [&](const std::string& name, absl::string_view line) {
                      talk.Take(name, line);
                    },
                    {.stopped_seconds = options.step_timeout_seconds,
                     .waker = &wishes.waker});
  absl::Status status = launcher.StartAll();
  std::string moe_mode = options.moe_mode;
  if (status.ok()) status = WaitReady(launcher, talk, bar, wishes, moe_mode);
  bar.Clear();
  if (status.ok() && wishes.stops.load() == 0) {
    TellReady(options, talk, moe_mode, clock.now_seconds() - started);
    while (wishes.stops.load() == 0)
      if (const auto death = Attend(launcher, wishes, kServePollMs))
        launcher.RestartAfter(*death);
  }
  if (status.ok()) StopInOrder(launcher, wishes, clock, options);
  launcher.StopAll(kFastGraceSeconds);
  RemoveRunFile();
  std::error_code ignored;
  fs::remove_all(places.sockets, ignored);
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

void AddEndFlags(CLI::App& verb, ServeOptions& o) {
  verb.add_option("--step-timeout", o.step_timeout_seconds,
                  "Seconds that a step may take before its group is given up "
                  "and forms anew, and that a process may be stopped before it "
                  "is replaced")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  verb.add_option("--drain-delay", o.drain_delay_seconds,
                  "Seconds after Ctrl-C in which new requests are still taken, "
                  "for load balancers to look away")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  verb.add_option("--drain-timeout", o.drain_timeout_seconds,
                  "Seconds after that which running requests have to finish")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
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
  verb.add_option("--weights", o.weights,
                  "What large matrices are held in: auto is what the model is "
                  "stored in; int8 and int4 are made from bf16 as it loads")
      ->check(CLI::IsMember({"auto", "bf16", "int8", "int4"}))
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
                  "Threads of each rank; 0: the cores allowed / tp-size")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  verb.add_option("--seed", o.seed,
                  "Seeds of requests that bring none follow from this, in "
                  "order of arrival; drawn if not given");
  AddEndFlags(verb, o);
  verb.add_flag("--insecure-bind", o.insecure_bind,
                "Allow addresses that other hosts can reach, without TLS");
  verb.footer(
      "Prints one line, `ready address=... `, once every rank has generated a "
      "token.\nCtrl-C lets running requests finish, a second one does not.\n"
      "Ctrl-\\ makes every process write a line of diagnostics.\n"
      "Examples:\n"
      "  phalanx serve --tp-size 2\n"
      "  phalanx serve --model DIR --address 127.0.0.1:8000 --max-running 64");
}

int RunServe(const ServeOptions& given) {
  Wishes wishes;
  ShutdownSignals signals(
      [&](int count) {
        wishes.stops.store(count);
        wishes.waker.Wake();
      },
      [&] {
        wishes.quit.store(true);
        wishes.waker.Wake();
      });
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
  if (status.ok()) status = Supervise(options, wishes);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "phalanx serve: %s\n", std::string(status.message()));
  return 1;
}

}  // namespace phalanx
