// phalanx-synth: a checkpoint of made-up weights with the layers of a release,
// for measurements:
//   phalanx-synth --out DIR [--layers 8] [--fp8] ...

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "common/help_format.h"
#include "common/status.h"
#include "common/version.h"
#include "gateway/cli/default_model.h"
#include "tests/bench/synthetic_checkpoint.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// Of phalanx-mini's, whose files are copied: a smaller model has no text.
constexpr int64_t kMiniVocab = 960;

struct SynthFlags {
  SyntheticModel model;
  std::string out;
  int threads = 0;
};

void AddSizes(CLI::App& app, SyntheticModel& model) {
  const struct {
    const char* name;
    int64_t* value;
    const char* help;
  } sizes[] = {
      {"--layers", &model.layers, "Layers; every fourth is attention"},
      {"--hidden", &model.hidden, "Width of the residual stream"},
      {"--vocab", &model.vocab, "Rows of embedding and head"},
      {"--experts", &model.experts, "Experts a layer, beside the shared one"},
      {"--experts-per-token", &model.experts_per_token, "Of them, for a token"},
      {"--expert-width", &model.expert_width,
       "Width of an expert, and of the shared one"},
      {"--heads", &model.heads, "Query heads of attention"},
      {"--kv-heads", &model.kv_heads, "Key and value heads of attention"},
      {"--head-dim", &model.head_dim, "Width of a head of attention"},
      {"--gdn-key-heads", &model.gdn_key_heads, "Key heads of the delta net"},
      {"--gdn-value-heads", &model.gdn_value_heads,
       "Value heads of the delta net"},
      {"--gdn-head-dim", &model.gdn_head_dim,
       "Width of a head of the delta net"},
      {"--context", &model.context, "Positions that config.json allows"},
  };
  for (const auto& size : sizes)
    app.add_option(size.name, *size.value, size.help)->capture_default_str();
}

void AddFlags(CLI::App& app, SynthFlags& flags) {
  app.add_option("--out", flags.out,
                 "Folder to make; new or empty; must be given")
      ->type_name("DIR")
      ->required();
  app.add_flag("--fp8", flags.model.fp8,
               "Block-FP8 as the FP8 releases have it, an expert at a time; "
               "else bf16");
  AddSizes(app, flags.model);
  app.add_option("--seed", flags.model.seed,
                 "Which numbers; the same seed and sizes give the same bytes")
      ->capture_default_str();
  app.add_option("--threads", flags.threads,
                 "Threads that write; 0: one for each CPU")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

std::string Gigabytes(double bytes) {
  return absl::StrFormat("%.2f GB", bytes / 1e9);
}

// A line on stderr every tenth of the way; on a terminal, one that is
// rewritten.
class Progress {
 public:
  void Show(int64_t done, int64_t total) {
    const int64_t steps = isatty(STDERR_FILENO) != 0 ? 1000 : 10;
    const int64_t step = done * steps / std::max<int64_t>(total, 1);
    if (step == shown_) return;
    shown_ = step;
    const double seconds = clock_.now_seconds() - started_;
    std::fprintf(stderr, "%s%s of %s, %s/s%s", steps == 10 ? "" : "\r",
                 Gigabytes(static_cast<double>(done)).c_str(),
                 Gigabytes(static_cast<double>(total)).c_str(),
                 Gigabytes(static_cast<double>(done) / seconds).c_str(),
                 steps == 10 || step == steps ? "\n" : "   ");
  }

  double seconds() const { return clock_.now_seconds() - started_; }

 private:
  const MonotonicClock clock_;
  const double started_ = clock_.now_seconds();
  int64_t shown_ = 0;
};

// What a gateway needs to begin with: the tokenizer, template and defaults of
// the small model that comes with Phalanx. Its ids are the first 905 of any
// vocabulary; others are a model's to say, and have no text.
absl::Status CopyTokenizer(const std::string& out) {
  ASSIGN_OR_RETURN(const std::string mini, DefaultModelDir());
  for (const char* name : {"tokenizer.json", "tokenizer_config.json",
                           "chat_template.jinja", "generation_config.json"}) {
    std::error_code error;
    fs::copy_file(fs::path(mini) / name, fs::path(out) / name, error);
    if (error)
      return absl::UnavailableError(absl::StrCat(
          mini, "/", name, " cannot be copied: ", error.message()));
  }
  return absl::OkStatus();
}

absl::Status Synthesise(const SynthFlags& flags) {
  const int threads =
      flags.threads > 0
          ? flags.threads
          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Progress progress;
  ASSIGN_OR_RETURN(
      const SyntheticFiles made,
      WriteSyntheticCheckpoint(
          flags.model, flags.out,
          {.threads = threads, .on_progress = [&](int64_t done, int64_t total) {
             progress.Show(done, total);
           }}));
  const double seconds = progress.seconds();
  const bool has_text = flags.model.vocab >= kMiniVocab;
  if (has_text) RETURN_IF_ERROR(CopyTokenizer(flags.out));
  std::printf(
      "%s: %s of %s in %d tensors and %d %s, %.1f s, %s/s; %s\n",
      flags.out.c_str(),
      Gigabytes(static_cast<double>(made.weight_bytes)).c_str(),
      flags.model.fp8 ? "block-FP8" : "bf16", made.tensors, made.files,
      made.files == 1 ? "file" : "files", seconds,
      Gigabytes(static_cast<double>(made.weight_bytes) / seconds).c_str(),
      has_text
          ? "tokenizer of phalanx-mini"
          : absl::StrCat("no tokenizer: the small one needs a vocabulary of ",
                         kMiniVocab)
                .c_str());
  return absl::OkStatus();
}

int Run(int argc, char** argv) {
  CLI::App app(
      "Writes a Hugging Face checkpoint of made-up weights: by default four "
      "layers of Qwen3.5-35B-A3B, 8.8 GB. Numbers have the scale of trained "
      "ones and mean nothing.",
      "phalanx-synth");
  app.formatter(std::make_shared<HelpFormat>());
  app.set_version_flag("--version", std::string(kVersion));
  SynthFlags flags;
  AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Synthesise(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "phalanx-synth: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace phalanx

int main(int argc, char** argv) { return phalanx::Run(argc, argv); }
