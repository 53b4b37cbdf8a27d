#include "worker/bench/model_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/available_memory.h"
#include "common/status.h"
#include "worker/bench/bench_cpus.h"
#include "worker/bench/machine_probe.h"
#include "worker/bench/progress_line.h"
#include "worker/bench/rank_group.h"
#include "worker/bench/samples.h"
#include "worker/model/qwen35_moe.h"

namespace phalanx {
namespace {

// Of a rank's budget, for keys and values.
constexpr double kKvShare = 0.25;

// What the group that is measured and the one beside it are.
struct Groups {
  WorkerConfig ranks;
  std::optional<WorkerConfig> tp1;
};

// Budgets are equal parts of what is free, unless flags say what a rank gets.
Groups GroupsOf(const ModelBenchConfig& config) {
  Groups groups{.ranks = config.rank, .tp1 = std::nullopt};
  const int ranks = config.rank.tp_size;
  const bool beside = ranks > 1 && config.against_tp1;
  WorkerConfig& flags = groups.ranks;
  flags.threads = ThreadsOfRank(config.rank.threads, ranks);
  if (flags.memory_budget == 0)
    flags.memory_budget = DefaultMemoryBudgetBytes(beside ? 2 * ranks : ranks);
  if (!beside) return groups;
  groups.tp1 = flags;
  groups.tp1->tp_size = 1;
  groups.tp1->threads = ranks * flags.threads;
  groups.tp1->memory_budget = ranks * flags.memory_budget;
  return groups;
}

void MakeRoom(const CaseNeeds& needs, const ModelConfig& config,
              WorkerConfig& flags) {
  flags.max_running = needs.sequences;
  flags.max_model_len = std::min(needs.tokens, config.max_position_embeddings);
  flags.kv_blocks = needs.blocks;
}

// The groups and the machine between them.
class ModelBench {
 public:
  ModelBench(const ModelBenchConfig& config, Peak peak, RankGroup& ranks,
             RankGroup* tp1, MachineProbe& probe)
      : config_(config), peak_(peak), ranks_(ranks), tp1_(tp1), probe_(probe) {}

  absl::StatusOr<CaseReport> Measure(const BenchCase& c) {
    CaseReport report{.c = c, .count = {}, .samples = {}, .timed = {}};
    absl::Status status;
    const auto take = [&] {
      ModelSample sample;
      if (!status.ok()) return sample;
      if (absl::Status error = Take(c, sample); !error.ok()) status = error;
      return sample;
    };
    // Once a rank is lost nothing is waited for.
    const auto look = [&] {
      return status.ok() ? probe_.MeasureAll(peak_) : Roofs();
    };
    report.count = TakeSamples<ModelSample>(
        config_.rounds, look, take, [&](ModelSample sample, Roofs roofs) {
          sample.roofs = roofs;
          report.samples.push_back(std::move(sample));
        });
    RETURN_IF_ERROR(status);
    PassRequest request = RequestOf(c);
    request.timing = true;
    ASSIGN_OR_RETURN(report.timed, ranks_.Run(request));
    return report;
  }

 private:
  PassRequest RequestOf(const BenchCase& c) const {
    return {.c = c,
            .seconds = config_.sample_seconds,
            .seed = config_.seed,
            .timing = false};
  }

  absl::Status Take(const BenchCase& c, ModelSample& sample) {
    ASSIGN_OR_RETURN(sample.run, ranks_.Run(RequestOf(c)));
    if (tp1_ == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(sample.tp1, tp1_->Run(RequestOf(c)));
    return absl::OkStatus();
  }

  const ModelBenchConfig& config_;
  const Peak peak_;
  RankGroup& ranks_;
  RankGroup* const tp1_;
  MachineProbe& probe_;
};

}  // namespace

absl::StatusOr<ModelReport> RunModelBench(const ModelBenchConfig& config,
                                          const RoofLoops& loops,
                                          const PrepareRank& prepare) {
  ProgressLine line;
  ASSIGN_OR_RETURN(const ModelConfig model,
                   LoadModelConfig(config.rank.model_dir));
  ASSIGN_OR_RETURN(const LocalShape local,
                   MakeLocalShape(model, 0, config.rank.tp_size));
  Groups groups = GroupsOf(config);
  CaseList list =
      CasesOf(config.cases, model,
              Qwen35Moe::KvShape(model, local).block_bytes(DType::kBf16),
              static_cast<int64_t>(
                  kKvShare * static_cast<double>(groups.ranks.memory_budget)));
  if (list.cases.empty())
    return absl::InvalidArgumentError(absl::StrCat(
        "nothing is left to measure: ", absl::StrJoin(list.left_out, "; ")));
  MakeRoom(NeedsOf(list.cases), model, groups.ranks);
  if (groups.tp1) MakeRoom(NeedsOf(list.cases), model, *groups.tp1);

  line.Show("loading");
  ASSIGN_OR_RETURN(const std::unique_ptr<RankGroup> ranks,
                   RankGroup::Start(groups.ranks, prepare));
  std::unique_ptr<RankGroup> tp1;
  if (groups.tp1) {
    ASSIGN_OR_RETURN(tp1, RankGroup::Start(*groups.tp1, prepare));
  }
  ModelReport report;
  ASSIGN_OR_RETURN(report.facts, ranks->AwaitLoaded());
  if (tp1 != nullptr) RETURN_IF_ERROR(tp1->AwaitLoaded().status());
  report.model_dir = config.rank.model_dir;
  report.processor = loops.processor;
  report.layers = model.num_layers();
  report.tp_size = config.rank.tp_size;
  report.rounds = config.rounds;
  report.left_out = std::move(list.left_out);

  MachineProbe probe(ProbeOf(
      loops, config.rank.tp_size * static_cast<int>(groups.ranks.threads)));
  report.before = probe.Measure();
  ModelBench bench(config, PeakFor(report.facts.weights), *ranks, tp1.get(),
                   probe);
  for (const BenchCase& c : list.cases) {
    line.Show(CaseName(c));
    ASSIGN_OR_RETURN(CaseReport measured, bench.Measure(c));
    report.cases.push_back(std::move(measured));
  }
  report.after = probe.Measure();
  ASSIGN_OR_RETURN(report.peak_bytes, ranks->End());
  if (tp1 != nullptr) RETURN_IF_ERROR(tp1->End().status());
  return report;
}

}  // namespace phalanx
