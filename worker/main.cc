// phalanx-worker: one rank. The composition root, and the only file that names
// a concrete backend.

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/mutex.h"
#include "common/allocator.h"
#include "common/available_memory.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/shutdown.h"
#include "common/status.h"
#include "common/ticker.h"
#include "common/version.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_quantiser.h"
#include "kernels/cpu/cpu_roof_loops.h"
#include "kernels/cuda_plugin/plugin_loader.h"
#include "worker/bench/kernels_command.h"
#include "worker/bench/model_command.h"
#include "worker/bench/rank_loop.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/digest.h"
#include "worker/config.h"
#include "worker/cpu_share.h"
#include "worker/diagnostics.h"
#include "worker/engine/step_watchdog.h"
#include "worker/group/heartbeat.h"
#include "worker/group/rank_service.h"
#include "worker/group/rank_stub.h"
#include "worker/host_collectives.h"
#include "worker/loaded_rank.h"
#include "worker/metrics/rank_metrics.h"
#include "worker/model_facts.h"
#include "worker/numerics_id.h"
#include "worker/plan_command.h"
#include "worker/quantise_command.h"
#include "worker/rank_plan.h"
#include "worker/rank_server.h"
#include "worker/serve_rank.h"
#include "worker/server/worker_service.h"
#include "worker/stopper.h"

namespace phalanx {
namespace {

// What a rank knows before it has a server: who it is.
struct Prepared {
  ModelConfig config;
  GenerationConfig generation;
  std::optional<Checkpoint> checkpoint;
  CpuShare cpus;
  std::unique_ptr<Backend> backend;
  RankPlan plan;
  RankIdentity identity;
  std::string files_digest;  // Of the checkpoint as it is, which packs are of.
  WeightFormat format = WeightFormat::kBf16;
  int64_t program_bytes = 0;  // Of files in memory before the checkpoint's.
};

// Sizes this rank's pools, and chooses where its experts live.
absl::StatusOr<RankPlan> Plan(const WorkerConfig& flags,
                              const ModelConfig& config,
                              const Checkpoint& checkpoint,
                              const Backend& backend, WeightFormat format) {
  RankResources resources;
  resources.activations = backend.activation_dtype();
  // FP8 becomes bf16 at load, or what that is quantised to.
  resources.weights = {.format = HeldAs(format),
                       .gdn = GdnVectorBytesOf(checkpoint)};
  resources.communicator_bytes = HostCollectives::BytesPerRank(flags.tp_size);
  resources.default_budget_bytes = DefaultMemoryBudgetBytes(flags.tp_size);
  return PlanRank(flags, config, resources);
}

// Says where this rank's experts live and why.
void TellPlan(const RankPlan& plan) {
  LogInfo("worker", "moe_mode",
          {{"chosen", MoeModeName(plan.memory.moe_mode)},
           {"why", plan.why},
           {"needed_bytes", plan.needed_bytes},
           {"budget_bytes", plan.memory.budget_bytes},
           {"planned_bytes", plan.memory.total()},
           {"expert_slots", plan.memory.expert_slots},
           {"kv_blocks", plan.limits.kv_blocks}});
}

// What --device names.
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(
    const WorkerConfig& flags, const CpuShare& cpus) {
  if (flags.device == "cuda")
    return CreateServedCudaBackend(CudaPluginPath(), CudaBackendConfig());
  CpuBackendConfig cpu;
  cpu.threads = cpus.threads;
  cpu.cpus = cpus.cpus;
  cpu.spin = cpus.spin;
  if (flags.numerics == "fma") cpu.family = KernelFamily::kFma;
  return CreateCpuBackend(cpu);
}

absl::StatusOr<Prepared> Prepare(const WorkerConfig& flags) {
  Prepared p;
  p.program_bytes = ReadProcessMemory().file;
  ASSIGN_OR_RETURN(p.config, LoadModelConfig(flags.model_dir));
  ASSIGN_OR_RETURN(p.format, HeldFormatOf(p.config, flags.weights));
  ASSIGN_OR_RETURN(p.generation, LoadGenerationConfig(flags.model_dir));
  ASSIGN_OR_RETURN(p.checkpoint, Checkpoint::Open(flags.model_dir));
  p.cpus = ShareCpus(AllowedCpus(), flags.rank, flags.tp_size, flags.threads);
  ASSIGN_OR_RETURN(p.backend, CreateBackend(flags, p.cpus));
  ASSIGN_OR_RETURN(p.plan,
                   Plan(flags, p.config, *p.checkpoint, *p.backend, p.format));
  p.files_digest = ModelDigest(*p.checkpoint);
  const std::string digest = SourceDigest(p.files_digest, p.config);
  p.identity = {.rank = flags.rank,
                .tp_size = flags.tp_size,
                .version = kVersion,
                .address = flags.listen,
                .model_digest = digest,
                .numerics_id = NumericsId(digest, p.config, p.format,
                                          p.backend->kernel_family()),
                .slice_plan = SlicePlan(p.plan),
                .pid = getpid(),
                .kv_blocks = p.plan.limits.kv_blocks,
                .state_slots = p.plan.limits.state_slots};
  return p;
}

// A rank as a bench loads it: as a served one, but for who it is to others.
absl::StatusOr<BenchRank> PrepareBenchRank(const WorkerConfig& flags) {
  ASSIGN_OR_RETURN(Prepared p, Prepare(flags));
  return BenchRank{.config = std::move(p.config),
                   .checkpoint = std::move(p.checkpoint),
                   .model_digest = std::move(p.files_digest),
                   .format = p.format,
                   .cpus = std::move(p.cpus),
                   .backend = std::move(p.backend),
                   .plan = std::move(p.plan)};
}

RankMetricsConfig MetricsOf(const Prepared& p, const WorkerConfig& flags) {
  return {.rank = flags.rank,
          .transport = "shm",
          .device = {.name = flags.device,
                     .capacity_bytes = HostMemoryBytes(),
                     .free_bytes = AvailableMemoryBytes,
                     .budget_bytes = p.plan.memory.budget_bytes,
                     .program_bytes = p.program_bytes},
          .comm_bytes = HostCollectives::BytesPerRank(flags.tp_size),
          .limits = p.plan.limits};
}

v1::WorkerStatus Facts(const Prepared& p, const WorkerConfig& flags) {
  v1::WorkerStatus facts;
  facts.set_rank(flags.rank);
  facts.set_tp_size(flags.tp_size);
  facts.set_model_digest(p.identity.model_digest);
  facts.set_numerics_id(p.identity.numerics_id);
  const MemoryPlan& memory = p.plan.memory;
  facts.set_moe_mode(std::string(MoeModeName(memory.moe_mode)));
  if (memory.moe_mode == MoeMode::kOffload)
    facts.set_offload_bank(std::string(OffloadBankName(memory.bank)));
  facts.set_memory_budget_bytes(memory.budget_bytes);
  facts.set_planned_bytes(memory.total());
  facts.set_device(flags.device);
  facts.set_pid(p.identity.pid);
  facts.set_kv_blocks_total(p.plan.limits.kv_blocks);
  facts.set_state_slots_total(p.plan.limits.state_slots);
  facts.set_max_model_len(p.plan.limits.max_model_len);
  facts.set_max_running(p.plan.limits.max_running);
  facts.set_threads(p.cpus.threads);
  facts.set_instruction_set(p.backend->instruction_set());
  *facts.mutable_model() = ModelFactsOf(p.config, p.generation, p.format);
  return facts;
}

// The rank's share by category, as the model defines it and as it is laid out.
void AddMemory(const Prepared& p, LoadedRank& rank, v1::WorkerStatus& facts) {
  const Backend& backend = *p.backend;
  const int64_t comm_bytes =
      HostCollectives::BytesPerRank(p.plan.local.tp_size);
  const int64_t share[kMemoryCategories] = {
      rank.weights().expert_bytes + p.plan.memory.expert_slots_bytes,
      rank.runner().kv_cache().bytes(),
      rank.runner().state_cache().bytes(),
      rank.weights().non_expert_bytes,
      backend.allocated_bytes_of(MemoryCategory::kWorkspace),
      comm_bytes};
  for (int i = 0; i < kMemoryCategories; ++i) {
    v1::MemoryUse* use = facts.add_memory();
    use->set_category(kMemoryCategoryNames[i]);
    use->set_bytes(share[i]);
    use->set_allocated_bytes(
        backend.allocated_bytes_of(static_cast<MemoryCategory>(i)));
    if (i == static_cast<int>(MemoryCategory::kComm))
      use->set_allocated_bytes(use->allocated_bytes() + comm_bytes);
  }
  if (rank.bank_bytes() == 0) return;
  v1::MemoryUse* bank = facts.add_host_memory();
  bank->set_category("offloaded_experts");
  bank->set_bytes(rank.bank_bytes());
  bank->set_allocated_bytes(rank.bank_bytes());
}

// Publishes how far packing or loading is.
void ShowProgress(const LoadProgress& now, StatusBoard& board) {
  board.Write([&](WorkerSnapshot& s) {
    s.load_progress = now.ratio();
    s.load_total_bytes = now.total_bytes;
  });
}

// How far loading is; the last time also as a line of the log.
void ShowLoading(const LoadProgress& now, double seconds, int threads,
                 StatusBoard& board) {
  ShowProgress(now, board);
  if (now.done_bytes < now.total_bytes) return;
  LogInfo("worker", "weights loaded",
          {{"bytes", now.total_bytes},
           {"seconds", seconds},
           {"gigabytes_per_second",
            static_cast<double>(now.total_bytes) / 1e9 / seconds},
           {"threads", threads}});
}

// Who hears of a rank's loading, and what may end it.
struct LoadSurroundings {
  StatusBoard& board;
  WorkerService& service;
  RankMetrics& metrics;
  const std::atomic<bool>& stop;
};

// Loads this rank, and tells service and metrics what it then holds.
absl::StatusOr<std::unique_ptr<LoadedRank>> Load(
    Prepared& p, const WorkerConfig& flags, v1::WorkerStatus facts,
    const LoadSurroundings& around) {
  const MonotonicClock clock;
  double started = 0;
  LoadRequest request = {
      .checkpoint = *std::move(p.checkpoint),
      .model_digest = p.files_digest,
      .format = p.format,
      .pack_cache = flags.pack_cache,
      .threads = p.cpus.threads,
      .cpus = p.cpus.cpus,
      .on_pack_progress =
          [&](const LoadProgress& now) { ShowProgress(now, around.board); },
      .on_progress =
          [&](const LoadProgress& now) {
            if (now.done_bytes == 0) started = clock.now_seconds();
            ShowLoading(now, clock.now_seconds() - started, p.cpus.threads,
                        around.board);
          },
      .stop = &around.stop,
      .observer = &around.metrics.steps()};
  p.checkpoint.reset();
  ASSIGN_OR_RETURN(
      std::unique_ptr<LoadedRank> rank,
      LoadedRank::Create(std::move(request), p.config, p.plan, *p.backend));
  AddMemory(p, *rank, facts);
  facts.set_metrics_address(around.metrics.address());
  around.service.Describe(facts);
  around.metrics.memory().SetBank(rank->bank_bytes());
  if (const ExpertCache* cache = rank->expert_cache()) {
    around.service.ShowExperts([cache] { return cache->counters(); });
    around.metrics.experts().SetSource([cache] { return cache->counters(); });
  }
  return rank;
}

// What the cache of experts did for its tokens, once it is all over.
void TellExperts(const LoadedRank& rank) {
  if (rank.expert_cache() == nullptr) return;
  const ExpertCacheCounters experts = rank.expert_cache()->counters();
  LogInfo("experts", "cache",
          {{"slots", experts.slots},
           {"hit_ratio", experts.hit_ratio()},
           {"tokens", experts.tokens},
           {"fetched_bytes", experts.fetched_bytes},
           {"fetched_bytes_per_token", experts.fetched_bytes_per_token()}});
}

// What signals reach.
struct Signalled {
  Stopper stopper;
  Diagnostics diagnostics;
};

// Ends a process whose engine thread hangs in its own work, so that the parent
// starts another.
[[noreturn]] void GiveUp(double seconds, int64_t rows) {
  LogError("engine", "step hangs",
           {{"cause", "the step did not end after its group was given up"},
            {"seconds", seconds},
            {"rows", rows}});
  _exit(1);
}

// Sees the steps of this rank, and ends the group that `group` has if one is
// late. Group: Membership or FormationInbox.
template <typename Group>
StepWatchdog Watchdog(const WorkerConfig& flags, const Clock& clock,
                      RankMetrics& metrics, Group& group) {
  return StepWatchdog(
      {.step_seconds = flags.step_timeout_seconds,
       .max_running = flags.max_running},
      clock, metrics.steps(),
      [&group](double seconds, int64_t rows) {
        LogWarning("engine", "step is late",
                   {{"seconds", seconds}, {"rows", rows}});
        group.AbortActive([seconds](const Collective& collective) {
          return LateStep(collective, seconds);
        });
      },
      GiveUp);
}

absl::Status RunRankZero(Prepared& p, const WorkerConfig& flags,
                         Signalled& signalled) {
  MonotonicClock clock;
  StatusBoard board;
  RankMetrics metrics(MetricsOf(p, flags), board, *p.backend);
  Inbox inbox;
  Membership membership(p.identity);
  RankService rank_service(&membership, nullptr);
  WorkerService worker_service(&inbox, board);
  const v1::WorkerStatus facts = Facts(p, flags);
  worker_service.Describe(facts);
  StepWatchdog watchdog = Watchdog(flags, clock, metrics, membership);
  const absl::Cleanup forget = [&] { signalled.diagnostics.Forget(); };
  signalled.diagnostics.Set([&] {
    return RankView{.rank = flags.rank,
                    .now = board.Read(),
                    .active_requests = inbox.active(),
                    .step_age_seconds = watchdog.step_age_seconds(),
                    .backend = p.backend.get()};
  });
  ASSIGN_OR_RETURN(const std::unique_ptr<grpc::Server> server,
                   StartRankServer(flags, {&rank_service, &worker_service},
                                   metrics, p.identity.address));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<LoadedRank> rank,
      Load(p, flags, facts,
           {board, worker_service, metrics, signalled.stopper.leaving()}));
  HostCollectives factory(flags.rank, flags.tp_size, p.cpus.spin, metrics);
  GroupLeader leader(p.identity, membership, factory, RankStub,
                     flags.epoch_floor);
  Engine engine(p.plan.limits, rank->runner(), inbox, board, clock, &watchdog);
  const Ticker heartbeats(kHeartbeatTick, [&] { membership.Tick(); });
  const Ticker steps(watchdog.tick(), [&] { watchdog.Tick(); });
  signalled.stopper.Set({.drain =
                             [&] {
                               engine.Drain();
                               membership.Stop();
                             },
                         .stop =
                             [&] {
                               engine.Stop();
                               membership.Stop();
                             }});
  const absl::Status status = ServeLeader(leader, membership, engine, board,
                                          signalled.stopper.leaving());
  signalled.stopper.Forget();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  metrics.Stop();  // They read what goes now.
  TellExperts(*rank);
  return status;
}

absl::Status RunFollower(Prepared& p, const WorkerConfig& flags,
                         Signalled& signalled) {
  MonotonicClock clock;
  StatusBoard board;
  RankMetrics metrics(MetricsOf(p, flags), board, *p.backend);
  FormationInbox inbox;
  RankService rank_service(nullptr, &inbox);
  WorkerService worker_service(nullptr, board);
  const v1::WorkerStatus facts = Facts(p, flags);
  worker_service.Describe(facts);
  StepWatchdog watchdog = Watchdog(flags, clock, metrics, inbox);
  const absl::Cleanup forget = [&] { signalled.diagnostics.Forget(); };
  signalled.diagnostics.Set([&] {
    return RankView{.rank = flags.rank,
                    .now = board.Read(),
                    .step_age_seconds = watchdog.step_age_seconds(),
                    .backend = p.backend.get()};
  });
  ASSIGN_OR_RETURN(const std::unique_ptr<grpc::Server> server,
                   StartRankServer(flags, {&rank_service, &worker_service},
                                   metrics, p.identity.address));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<LoadedRank> rank,
      Load(p, flags, facts,
           {board, worker_service, metrics, signalled.stopper.leaving()}));
  HostCollectives factory(flags.rank, flags.tp_size, p.cpus.spin, metrics);
  Follower follower(rank->runner(), board, &watchdog);
  const Ticker steps(watchdog.tick(), [&] { watchdog.Tick(); });
  const std::unique_ptr<v1::Rank::StubInterface> leader =
      RankStub(flags.leader);
  const absl::Status leaves = absl::CancelledError("shutting down");
  signalled.stopper.Set({.drain = [&] { inbox.Leave(leaves); },
                         .stop =
                             [&] {
                               inbox.Leave(leaves);
                               inbox.Abort(/*epoch=*/0, leaves);
                             }});
  const absl::Status status =
      ServeFollower(*leader, p.identity, inbox, factory, follower, board,
                    signalled.stopper.leaving());
  signalled.stopper.Forget();
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  metrics.Stop();  // They read what goes now.
  TellExperts(*rank);
  return status;
}

int Main(int argc, char** argv) {
  LimitAllocatorArenas();
  if (argc > 1 && absl::string_view(argv[1]) == "plan")
    return RunPlanCommand(argc - 1, argv + 1);
  if (argc > 1 && absl::string_view(argv[1]) == "quantize")
    return RunQuantizeCommand(argc - 1, argv + 1, CpuWeightRowQuantiser());
  if (argc > 1 && absl::string_view(argv[1]) == "bench-model")
    return RunBenchModelCommand(argc - 1, argv + 1, CpuRoofLoops(),
                                PrepareBenchRank);
  if (argc > 1 && absl::string_view(argv[1]) == "bench-kernels")
    return RunBenchKernelsCommand(argc - 1, argv + 1, CpuRoofLoops(),
                                  CreateBackend);
  // Debian's Abseil aborts on a lock inversion seen once, gRPC's own included.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Errors of parsing are told to the client; protobuf would print them too.
  google::protobuf::SetLogHandler(nullptr);
  WorkerConfig flags;
  if (const int code = ParseWorkerFlags(argc, argv, flags); code >= 0)
    return code;
  Signalled signalled{
      .stopper = Stopper(std::chrono::milliseconds(
          static_cast<int64_t>(1000 * flags.drain_timeout_seconds))),
      .diagnostics = {}};
  ShutdownSignals signals([&](int count) { signalled.stopper.OnSignal(count); },
                          [&] { signalled.diagnostics.Write(); });
  // One reference that is never given back: taking gRPC down may wait 10 s for
  // a poller of its own, and the process ends anyway. Not before the signals
  // are blocked, since it starts threads.
  grpc_init();
  SetLogContext({{"rank", flags.rank}});
  absl::StatusOr<Prepared> prepared = Prepare(flags);
  absl::Status status = prepared.status();
  if (status.ok()) TellPlan(prepared->plan);
  if (status.ok())
    status = flags.rank == 0 ? RunRankZero(*prepared, flags, signalled)
                             : RunFollower(*prepared, flags, signalled);
  // Asked to stop while it loaded.
  if (absl::IsCancelled(status) && signalled.stopper.leaving().load())
    status = absl::OkStatus();
  if (!status.ok()) {
    LogError("worker", "cannot go on", {{"cause", status.message()}});
    return 1;
  }
  LogInfo("worker", "stopped");
  return 0;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Main(argc, argv); }
