#include "worker/plan_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/byte_size.h"
#include "common/flag_list.h"
#include "common/help_format.h"
#include "common/status.h"
#include "common/units.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/plan/presets.h"

namespace phalanx {
namespace {

// More of a list is no plan but a mistake.
constexpr int kMaxListed = 16;

// What the command line says.
struct PlanFlags {
  std::string model_dir;
  std::string preset;
  std::vector<int> tp_sizes = {1};
  // Unless told: every mode that the model has.
  std::vector<std::string> moe_modes;
  std::string bank = "sharded";
  std::string device_memory;
  double memory_ratio = 0.9;
  int64_t max_running = 4;
  std::string weights = "bf16";
  int64_t expert_slots = 0;
  double read_gbps = 0;
  bool json = false;
};

void AddPlanFlags(CLI::App& app, PlanFlags& flags) {
  app.add_option("--model", flags.model_dir,
                 "Folder with config.json and *.safetensors")
      ->type_name(kFolderValue);
  app.add_option("--preset", flags.preset,
                 "A public release, without its files")
      ->check(CLI::Validator(
          // PresetConfig refuses, in the words that a folder is refused with.
          [](std::string&) { return std::string(); },
          absl::StrCat("{", absl::StrJoin(kPresetNames, ","), "}")));
  app.add_option("--tp-size", flags.tp_sizes, "Ranks, a card each: 1,2,4,8")
      ->delimiter(',')
      ->expected(1, kMaxListed)
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--moe-mode", flags.moe_modes, "Where experts live")
      ->delimiter(',')
      ->expected(1, kMaxListed)
      ->check(CLI::IsMember({"resident", "offload"}))
      ->default_str("[resident,offload]");
  app.add_option("--offload-bank", flags.bank,
                 "What a card takes of an expert in offload")
      ->check(CLI::IsMember({"full", "sharded"}))
      ->capture_default_str();
  app.add_option("--device-memory", flags.device_memory,
                 "Free memory of a card, such as 94.4GiB; must be given")
      ->type_name("BYTES");
  app.add_option("--memory-ratio", flags.memory_ratio,
                 "The part of it that may be planned")
      ->capture_default_str();
  app.add_option("--max-running", flags.max_running,
                 "Sequences computed at once")
      ->capture_default_str();
  app.add_option("--weights", flags.weights, "What large matrices are held in")
      ->check(CLI::IsMember({"bf16", "int8", "int4", "fp8"}))
      ->capture_default_str();
  app.add_option("--expert-slots", flags.expert_slots,
                 "Experts that a card holds at once in offload, at least those "
                 "of a layer; 0: choose")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->capture_default_str();
  app.add_option("--read-gbps", flags.read_gbps,
                 "GB/s that the host reads experts with in offload, from its "
                 "disk or its memory: predicts tokens/s")
      ->check(CLI::Range(0.001, 1e6));
  app.add_flag("--json", flags.json, "A list of objects, for programs");
}

// A model and what is asked of it; tp_size and moe_mode are filled in later.
struct Question {
  ModelConfig config;
  PlanRequest request;
};

absl::StatusOr<Question> MakeQuestion(const PlanFlags& flags) {
  Question question;
  PlanRequest& request = question.request;
  ASSIGN_OR_RETURN(request.device_bytes,
                   ParseByteSize("--device-memory", flags.device_memory));
  request.memory_ratio = flags.memory_ratio;
  request.max_running = flags.max_running;
  request.bank =
      flags.bank == "full" ? OffloadBank::kFull : OffloadBank::kSharded;
  request.expert_slots = flags.expert_slots;
  const std::optional<WeightFormat> held = WeightFormatOf(flags.weights);
  request.weights.format = held ? HeldAs(*held) : HeldFormat::kFp8;
  if (flags.model_dir.empty()) {
    ASSIGN_OR_RETURN(question.config, PresetConfig(flags.preset));
    return question;
  }
  ASSIGN_OR_RETURN(question.config, LoadModelConfig(flags.model_dir));
  ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                   Checkpoint::Open(flags.model_dir));
  request.weights.gdn = GdnVectorBytesOf(checkpoint);
  return question;
}

std::vector<std::string> ModesOf(const PlanFlags& flags,
                                 const ModelConfig& config) {
  if (!flags.moe_modes.empty()) return flags.moe_modes;
  if (!config.has_experts()) return {"resident"};
  return {"resident", "offload"};
}

absl::Status RunPlan(const PlanFlags& flags, bool& all_fit) {
  ASSIGN_OR_RETURN(Question question, MakeQuestion(flags));
  PlanRequest& request = question.request;
  std::vector<MemoryPlan> plans;
  for (const std::string& mode : ModesOf(flags, question.config)) {
    for (const int tp_size : flags.tp_sizes) {
      request.moe_mode =
          mode == "offload" ? MoeMode::kOffload : MoeMode::kResident;
      request.tp_size = tp_size;
      const absl::StatusOr<MemoryPlan> plan =
          PlanMemory(question.config, request);
      if (plan.ok()) {
        plans.push_back(*plan);
      } else if (absl::IsResourceExhausted(plan.status())) {
        all_fit = false;
        std::fprintf(stderr, "phalanx plan: %s\n",
                     std::string(plan.status().message()).c_str());
      } else {
        return plan.status();
      }
    }
  }
  const std::string text = flags.json
                               ? PlanJson(plans, flags.read_gbps)
                               : PlanTable(plans, request, flags.read_gbps);
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

using Cells = std::vector<std::string>;

Cells CellsOf(const MemoryPlan& plan) {
  return {absl::StrCat(plan.tp_size),
          std::string(MoeModeName(plan.moe_mode)),
          FormatByteSize(plan.experts_bytes),
          FormatByteSize(plan.kv_cache_bytes),
          FormatByteSize(plan.non_expert_bytes),
          FormatByteSize(plan.expert_slots_bytes),
          FormatByteSize(plan.state_bytes),
          absl::StrCat(plan.kv_tokens),
          absl::StrCat(plan.longest_context)};
}

// Columns as wide as they need, two spaces between them.
std::string Aligned(const std::vector<Cells>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Cells& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Cells& row : rows) {
    for (size_t i = 0; i < row.size(); ++i)
      absl::StrAppend(&text, i == 0 ? "" : "  ",
                      std::string(widths[i] - row[i].size(), ' '), row[i]);
    text += '\n';
  }
  return text;
}

std::string Assumptions(const MemoryPlan& plan, const PlanRequest& request) {
  std::string text =
      absl::StrCat("\nPer card, of ", FormatByteSize(request.device_bytes),
                   " x ", request.memory_ratio, ". ", plan.state_slots,
                   " state slots: ", request.max_running,
                   " live, of running sequences, and ",
                   plan.state_slots - request.max_running,
                   " of snapshots in the prefix cache. Weights are ",
                   HeldFormatName(request.weights.format), ".\n");
  if (request.communicator_bytes > 0)
    absl::StrAppend(&text, "Above TP 1 the communicator takes ",
                    FormatByteSize(request.communicator_bytes),
                    " of each card first; TP 1 has none, so its budget is ",
                    FormatByteSize(static_cast<int64_t>(
                        request.memory_ratio *
                        static_cast<double>(request.communicator_bytes))),
                    " larger.\n");
  return text;
}

// What reading alone allows; 0 where nothing is read, or nobody knows how fast.
double TokensPerSecond(const MemoryPlan& plan, double read_gbps) {
  if (plan.read_bytes_per_token == 0) return 0;
  return read_gbps * 1e9 / static_cast<double>(plan.read_bytes_per_token);
}

// What decoding one stream costs in fetches.
std::string Fetches(const MemoryPlan& plan, double read_gbps) {
  std::string text = absl::StrCat("TP ", plan.tp_size, ", ", plan.expert_slots,
                                  " slots: at uniform routing a token fetches ",
                                  FormatByteSize(plan.fetched_bytes_per_token),
                                  " into each card");
  if (plan.tp_size > 1)
    absl::StrAppend(&text, ", ", FormatByteSize(plan.read_bytes_per_token),
                    " from the bank");
  if (const double rate = TokensPerSecond(plan, read_gbps); rate > 0)
    absl::StrAppendFormat(&text, ": at most %.2f tokens/s at %g GB/s", rate,
                          read_gbps);
  return text + ".\n";
}

}  // namespace

std::string PlanTable(std::span<const MemoryPlan> plans,
                      const PlanRequest& request, double read_gbps) {
  if (plans.empty()) return "";
  std::vector<Cells> rows = {{"TP", "mode", "experts", "KV cache", "non-expert",
                              "expert slots", "states", "KV tokens",
                              "longest context"}};
  for (const MemoryPlan& plan : plans) rows.push_back(CellsOf(plan));
  std::string text =
      absl::StrCat(Aligned(rows), Assumptions(plans.front(), request));
  for (const MemoryPlan& plan : plans) {
    if (plan.moe_mode != MoeMode::kOffload) continue;
    absl::StrAppend(&text, "Offload: the host holds the experts once, ",
                    FormatByteSize(plan.bank_bytes), "; the bank is ",
                    request.bank == OffloadBank::kFull
                        ? "full: slots hold whole experts, and the shared "
                          "expert is whole.\n"
                        : "sharded: slots hold the card's slice.\n");
    break;
  }
  for (const MemoryPlan& plan : plans)
    if (plan.moe_mode == MoeMode::kOffload) text += Fetches(plan, read_gbps);
  return text;
}

std::string PlanJson(std::span<const MemoryPlan> plans, double read_gbps) {
  auto list = nlohmann::ordered_json::array();
  for (const MemoryPlan& plan : plans) {
    nlohmann::ordered_json object;
    object["tp_size"] = plan.tp_size;
    object["moe_mode"] = std::string(MoeModeName(plan.moe_mode));
    object["experts_bytes"] = plan.experts_bytes;
    object["kv_cache_bytes"] = plan.kv_cache_bytes;
    object["non_expert_bytes"] = plan.non_expert_bytes;
    object["state_bytes"] = plan.state_bytes;
    object["expert_slots_bytes"] = plan.expert_slots_bytes;
    object["kv_tokens"] = plan.kv_tokens;
    object["state_slots"] = plan.state_slots;
    if (plan.moe_mode == MoeMode::kOffload) {
      object["expert_slots"] = plan.expert_slots;
      object["fetched_bytes_per_token"] = plan.fetched_bytes_per_token;
      object["read_bytes_per_token"] = plan.read_bytes_per_token;
      if (const double rate = TokensPerSecond(plan, read_gbps); rate > 0)
        object["tokens_per_second"] = rate;
    }
    list.push_back(std::move(object));
  }
  return list.dump(2) + "\n";
}

int RunPlanCommand(int argc, char** argv) {
  CLI::App app(
      "What each card of a group would hold, before anything is allocated.",
      "phalanx plan");
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("--help,-h", "Show this, and end");
  app.footer(
      "Examples:\n"
      "  phalanx plan --preset qwen3.6-35b-a3b --tp-size 1,2,4 "
      "--device-memory 94.4GiB\n"
      "  phalanx plan --model DIR --device-memory 80GB --json");
  PlanFlags flags;
  AddPlanFlags(app, flags);
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
    if (flags.model_dir.empty() == flags.preset.empty())
      throw CLI::ValidationError("--model, --preset",
                                 "one of the two must be given");
    if (flags.device_memory.empty())
      throw CLI::RequiredError("--device-memory");
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  bool all_fit = true;
  if (const absl::Status status = RunPlan(flags, all_fit); !status.ok()) {
    std::fprintf(stderr, "phalanx plan: %s\n",
                 std::string(status.message()).c_str());
    return 1;
  }
  return all_fit ? 0 : 1;
}

}  // namespace phalanx
