#include "worker/quantise_command.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/byte_size.h"
#include "common/clock.h"
#include "common/flag_list.h"
#include "common/help_format.h"
#include "common/shutdown.h"
#include "common/status.h"
#include "worker/bench/progress_line.h"
#include "worker/cpu_share.h"
#include "worker/quantise/quantise_checkpoint.h"

namespace phalanx {
namespace {

constexpr int kInterruptedCode = 130;

struct QuantizeFlags {
  std::string model_dir;
  std::string weights;
  std::string out_dir;
  int threads = 0;
};

void AddFlags(CLI::App& app, QuantizeFlags& flags) {
  app.add_option("--model", flags.model_dir,
                 "Folder with config.json and *.safetensors, bf16 or block-FP8")
      ->type_name(kFolderValue);
  app.add_option("--weights", flags.weights, "What large matrices become")
      ->check(CLI::IsMember({"int8", "int4"}));
  app.add_option("--out", flags.out_dir,
                 "Folder to make; must not be there yet")
      ->type_name(kFolderValue);
  app.add_option("--threads", flags.threads, "0: one for each core allowed")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

// Shows a person who waits how far it is.
absl::StatusOr<QuantiseResult> QuantiseShown(QuantiseOptions options) {
  int shown = -1;
  ProgressLine line;
  options.run.on_progress = [&](const LoadProgress& now) {
    const int percent = static_cast<int>(100 * now.ratio());
    if (percent == std::exchange(shown, percent)) return;
    line.Show(absl::StrFormat("%3d %% of %s", percent,
                              FormatByteSize(now.total_bytes)));
  };
  return QuantiseCheckpoint(options);
}

absl::Status Quantise(const QuantizeFlags& flags, WeightRowQuantiser row,
                      const std::atomic<bool>& stop) {
  QuantiseOptions options = {.model_dir = flags.model_dir,
                             .format = flags.weights == "int4"
                                           ? WeightFormat::kInt4
                                           : WeightFormat::kInt8,
                             .out_dir = flags.out_dir,
                             .quantise_row = row};
  options.run.threads =
      ShareCpus(AllowedCpus(), /*rank=*/0, /*tp_size=*/1, flags.threads)
          .threads;
  options.run.stop = &stop;
  const MonotonicClock clock;
  const double start = clock.now_seconds();
  ASSIGN_OR_RETURN(const QuantiseResult result,
                   QuantiseShown(std::move(options)));
  std::printf("%s", absl::StrFormat("%s: %s, %s in %d file%s; was %s; %.1f s\n",
                                    flags.out_dir, flags.weights,
                                    FormatByteSize(result.bytes), result.files,
                                    result.files == 1 ? "" : "s",
                                    FormatByteSize(result.source_bytes),
                                    clock.now_seconds() - start)
                        .c_str());
  return absl::OkStatus();
}

void RequireAll(const QuantizeFlags& flags) {
  // Not ->required(): that would hide an unknown flag.
  if (flags.model_dir.empty()) throw CLI::RequiredError("--model");
  if (flags.weights.empty()) throw CLI::RequiredError("--weights");
  if (flags.out_dir.empty()) throw CLI::RequiredError("--out");
}

}  // namespace

int RunQuantizeCommand(int argc, char** argv,
                       const absl::StatusOr<WeightRowQuantiser>& row) {
  CLI::App app(
      "A model's folder in int8 or int4, as `serve --weights` would hold it.",
      "phalanx quantize");
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("--help,-h", "Show this, and end");
  app.footer(
      "Example:\n  phalanx quantize --model DIR --weights int4 --out DIR-int4\n"
      "  phalanx serve --model DIR-int4");
  QuantizeFlags flags;
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
    RequireAll(flags);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  std::atomic<bool> stop{false};
  const ShutdownSignals signals([&stop](int) { stop = true; });
  const absl::Status status =
      row.ok() ? Quantise(flags, *row, stop) : row.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "phalanx quantize: %s\n",
               std::string(status.message()).c_str());
  return absl::IsCancelled(status) ? kInterruptedCode : 1;
}

}  // namespace phalanx
