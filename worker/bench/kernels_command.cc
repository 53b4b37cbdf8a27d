#include "worker/bench/kernels_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/clock.h"
#include "common/flag_list.h"
#include "common/help_format.h"
#include "common/status.h"
#include "worker/bench/all_reduce_pair.h"
#include "worker/bench/bench_cpus.h"
#include "worker/bench/kernel_cases.h"
#include "worker/bench/kernel_report.h"
#include "worker/bench/machine_probe.h"
#include "worker/bench/progress_line.h"
#include "worker/bench/samples.h"

namespace phalanx {
namespace {

constexpr char kAllReduce[] = "all-reduce";
constexpr int kUsualRounds = 5;
constexpr int kQuickRounds = 2;
constexpr double kUsualSeconds = 0.1;
constexpr double kQuickSeconds = 0.03;
constexpr int64_t kUsualExperts = 256;
constexpr int64_t kQuickExperts = 32;
constexpr int64_t kMostCalls = 100'000;

// What the command line says. 0: the usual, or the quick.
struct Flags {
  WorkerConfig rank;
  std::vector<std::string> only;
  int rounds = 0;
  bool quick = false;
  bool json = false;
};

std::vector<std::string> Groups() {
  std::vector<std::string> groups(std::begin(kKernelGroups),
                                  std::end(kKernelGroups));
  groups.push_back(kAllReduce);
  return groups;
}

void AddFlags(CLI::App& app, Flags& flags) {
  AddComputeFlags(app, flags.rank);
  app.add_option("--only", flags.only, "Some of the kernels instead of all")
      ->delimiter(',')
      ->expected(1, 16)
      ->check(CLI::IsMember(Groups()));
  app.add_option("--rounds", flags.rounds,
                 "Samples of each case; 5, or 2 if quick")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--quick", flags.quick,
               "32 experts instead of 256; short samples");
  app.add_flag("--json", flags.json, "One object, for programs");
}

// One backend's kernels and the machine between samples.
class KernelBench {
 public:
  KernelBench(const Flags& flags, MachineProbe& probe, Backend& backend)
      : rounds_(flags.rounds > 0 ? flags.rounds
                : flags.quick    ? kQuickRounds
                                 : kUsualRounds),
        seconds_(flags.quick ? kQuickSeconds : kUsualSeconds),
        probe_(probe),
        backend_(backend) {}

  int rounds() const { return rounds_; }

  KernelCaseReport Measure(const KernelCase& c) {
    KernelCaseReport report{.work = c.work, .count = {}, .samples = {}};
    const int64_t calls = std::clamp<int64_t>(
        static_cast<int64_t>(seconds_ / SecondsOf(c, 3)), 1, kMostCalls);
    report.count = TakeSamples<double>(
        rounds_, [&] { return probe_.MeasureAll(c.work.peak); },
        [&] { return SecondsOf(c, calls); },
        [&](double seconds, const Roofs& roofs) {
          report.samples.push_back({.seconds = seconds, .roofs = roofs});
        });
    return report;
  }

 private:
  // Of one call, the mean of so many; the first of them is warm-up.
  double SecondsOf(const KernelCase& c, int64_t calls) {
    if (c.begin != nullptr) c.begin(calls + 1);
    c.call(done_++);
    const double began = clock_.now_seconds();
    for (int64_t i = 0; i < calls; ++i) c.call(done_++);
    CHECK(backend_.Synchronize().ok());
    return (clock_.now_seconds() - began) / static_cast<double>(calls);
  }

  const int rounds_;
  const double seconds_;
  MachineProbe& probe_;
  Backend& backend_;
  const MonotonicClock clock_;
  int64_t done_ = 0;
};

absl::StatusOr<KernelReport> Run(const Flags& flags, const RoofLoops& loops,
                                 const MakeBackend& make_backend) {
  const auto wanted = [&](const std::string& group) {
    return flags.only.empty() || std::find(flags.only.begin(), flags.only.end(),
                                           group) != flags.only.end();
  };
  const std::vector<int> cpus = AllowedCpuIds();
  KernelReport report;
  std::unique_ptr<AllReducePair> pair;
  if (wanted(kAllReduce) && cpus.size() < 2) {
    report.left_out.push_back("all-reduce: there is one CPU");
  } else if (wanted(kAllReduce)) {
    ASSIGN_OR_RETURN(pair, AllReducePair::Start(cpus));
  }
  const CpuShare share = ShareCpus(AllowedCpus(), 0, 1, flags.rank.threads);
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   make_backend(flags.rank, share));
  MachineProbe probe(ProbeOf(loops, share.threads));
  KernelBench bench(flags, probe, *backend);
  report.processor = loops.processor;
  report.kernel_family = backend->kernel_family();
  report.instruction_set = backend->instruction_set();
  report.threads = backend->threads();
  report.rounds = bench.rounds();
  report.before = probe.Measure();
  ProgressLine line;
  const auto measure = [&](const std::vector<KernelCase>& cases) {
    for (const KernelCase& c : cases) {
      line.Show(c.work.name);
      report.cases.push_back(bench.Measure(c));
    }
  };
  const KernelSizes sizes{
      .set_bytes = probe.set_bytes(),
      .experts = flags.quick ? kQuickExperts : kUsualExperts};
  for (const char* group : kKernelGroups) {
    if (!wanted(group)) continue;
    ASSIGN_OR_RETURN(const std::vector<KernelCase> cases,
                     MakeKernelCases(group, sizes, *backend, report.left_out));
    measure(cases);
  }
  if (pair != nullptr) {
    measure(pair->Cases());
    RETURN_IF_ERROR(pair->status());
  }
  report.after = probe.Measure();
  return report;
}

}  // namespace

int RunBenchKernelsCommand(int argc, char** argv, const RoofLoops& loops,
                           const MakeBackend& make_backend) {
  CLI::App app("How fast kernels are on this machine, beside what it could.",
               "phalanx bench kernels");
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("--help,-h", "Show this, and end");
  app.footer(
      "Sizes are those of Qwen3.5-35B-A3B. The machine is measured before and "
      "after\n"
      "each sample; one that it moved in by over 10 % is thrown away.\n"
      "Exit codes: 0 done, 1 refused or failed.\n"
      "Examples:\n"
      "  phalanx bench kernels --quick\n"
      "  phalanx bench kernels --only product,experts --threads 1 --json");
  Flags flags;
  AddFlags(app, flags);
  bool list_flags = false;
  app.add_flag("--list-flags", list_flags, "For `phalanx completion`")
      ->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (list_flags) {
    std::fputs(VerbJson(DescribeVerb(app)).c_str(), stdout);
    return 0;
  }
  const absl::StatusOr<KernelReport> report = Run(flags, loops, make_backend);
  if (!report.ok()) {
    std::fprintf(stderr, "phalanx bench kernels: %s\n",
                 std::string(report.status().message()).c_str());
    return 1;
  }
  std::fputs((flags.json ? KernelJson(*report) : KernelText(*report)).c_str(),
             stdout);
  return 0;
}

}  // namespace phalanx
