#include "worker/bench/model_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/flag_list.h"
#include "common/help_format.h"
#include "worker/bench/model_report.h"
#include "worker/bench/model_run.h"

namespace phalanx {
namespace {

constexpr int kMaxListed = 16;
constexpr int kUsualRounds = 5;
constexpr int kQuickRounds = 2;
constexpr double kUsualSeconds = 0.3;
constexpr double kQuickSeconds = 0.05;

// What the command line says. Empty and 0: the usual, or the quick.
struct Flags {
  WorkerConfig rank;
  std::vector<int64_t> batches;
  std::vector<int64_t> prompts;
  std::vector<int64_t> contexts;
  std::string only;
  int rounds = 0;
  uint64_t seed = 0;
  bool quick = false;
  bool no_tp1 = false;
  bool json = false;
};

void AddList(CLI::App& app, const char* name, std::vector<int64_t>& list,
             int64_t least, int64_t most, const char* usual, const char* what) {
  app.add_option(name, list, what)
      ->delimiter(',')
      ->expected(1, kMaxListed)
      ->check(CLI::Range(least, most))
      ->default_str(usual);
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--model", flags.rank.model_dir,
                 "Folder with config.json and *.safetensors; must be given")
      ->type_name(kFolderValue);
  app.add_option("--tp-size", flags.rank.tp_size,
                 "Ranks, a process each; above 1 beside one rank with as many "
                 "threads, in turns")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  AddComputeFlags(app, flags.rank);
  AddMemoryFlags(app, flags.rank);
  app.add_option("--prefill-chunk", flags.rank.prefill_chunk,
                 "Prompt tokens in a step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  AddList(app, "--batches", flags.batches, 1, 4096, "[1,4,8,16,32]",
          "Sequences that decode at once");
  AddList(app, "--prompts", flags.prompts, 1, 65536, "[128,512,2048]",
          "Tokens of a prefill");
  AddList(app, "--contexts", flags.contexts, 0, int64_t{1} << 24,
          "[0,4096,32768]",
          "Tokens in the caches before, each with every size");
  app.add_option("--only", flags.only, "One kind of steps instead of both")
      ->check(CLI::IsMember({"decode", "prefill"}));
  app.add_option("--rounds", flags.rounds,
                 "Samples of each case; 5, or 2 if quick")
      ->check(CLI::Range(1, 1000));
  app.add_option("--seed", flags.seed, "Of the tokens")->capture_default_str();
  app.add_flag("--quick", flags.quick,
               "Batches 1 and 8, a prompt of 128, no context, unless told; "
               "short samples");
  app.add_flag("--no-tp1", flags.no_tp1,
               "Load no group of one rank beside that of more");
  app.add_flag("--json", flags.json, "One object, for programs");
}

template <typename T>
std::vector<T> Chosen(const std::vector<T>& told, bool quick,
                      std::vector<T> usual, std::vector<T> short_list) {
  if (!told.empty()) return told;
  return quick ? short_list : usual;
}

ModelBenchConfig ConfigOf(const Flags& flags) {
  ModelBenchConfig config;
  config.rank = flags.rank;
  config.cases = {.batches = Chosen<int64_t>(flags.batches, flags.quick,
                                             {1, 4, 8, 16, 32}, {1, 8}),
                  .prompts = Chosen<int64_t>(flags.prompts, flags.quick,
                                             {128, 512, 2048}, {128}),
                  .contexts = Chosen<int64_t>(flags.contexts, flags.quick,
                                              {0, 4096, 32768}, {0}),
                  .decode = flags.only != "prefill",
                  .prefill = flags.only != "decode"};
  config.rounds = flags.rounds > 0 ? flags.rounds
                  : flags.quick    ? kQuickRounds
                                   : kUsualRounds;
  config.sample_seconds = flags.quick ? kQuickSeconds : kUsualSeconds;
  config.against_tp1 = !flags.no_tp1;
  config.seed = flags.seed;
  return config;
}

constexpr char kFooter[] =
    "Decodes and prefills with random tokens, without gateway or sampling; "
    "contexts\n"
    "hold noise instead of a prefill's results. The machine is measured before "
    "and\n"
    "after each sample; one that it moved in by over 10 % is thrown away.\n"
    "Exit codes: 0 done, 1 refused or failed.\n"
    "Examples:\n"
    "  phalanx bench model --model DIR --quick\n"
    "  phalanx bench model --model DIR --tp-size 2 --only decode --json\n"
    "  phalanx bench model --model DIR --batches 1 --prompts 512 --contexts 0";

}  // namespace

int RunBenchModelCommand(int argc, char** argv, const RoofLoops& loops,
                         const PrepareRank& prepare) {
  CLI::App app("How fast this machine runs a model, beside what it could.",
               "phalanx bench model");
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("--help,-h", "Show this, and end");
  app.footer(kFooter);
  Flags flags;
  AddFlags(app, flags);
  bool list_flags = false;
  app.add_flag("--list-flags", list_flags, "For `phalanx completion`")
      ->group("");
  try {
    app.parse(argc, argv);
    if (list_flags) {
      std::fputs(VerbJson(DescribeVerb(app)).c_str(), stdout);
      return 0;
    }
    // Not ->required(): that would hide an unknown flag.
    if (flags.rank.model_dir.empty()) throw CLI::RequiredError("--model");
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const absl::StatusOr<ModelReport> report =
      RunModelBench(ConfigOf(flags), loops, prepare);
  if (!report.ok()) {
    std::fprintf(stderr, "phalanx bench model: %s\n",
                 std::string(report.status().message()).c_str());
    return 1;
  }
  std::fputs((flags.json ? ModelJson(*report) : ModelText(*report)).c_str(),
             stdout);
  return 0;
}

}  // namespace phalanx
