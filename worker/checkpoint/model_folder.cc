#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/checkpoint/foreign_format.h"
#include "worker/checkpoint/json_fields.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {
namespace {

constexpr char kConfigName[] = "config.json";
constexpr char kGenerationName[] = "generation_config.json";
constexpr size_t kMaxEosIds = 64;
constexpr double kMaxTemperature = 100;

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

// Adds an id or a list of ids.
void ReadEos(JsonFields& fields, std::vector<int32_t>* ids) {
  constexpr absl::string_view kKey = "eos_token_id";
  const nlohmann::json* value = fields.Find(kKey);
  if (value == nullptr) return;
  const nlohmann::json list =
      value->is_array() ? *value : nlohmann::json::array({*value});
  if (list.size() > kMaxEosIds)
    return fields.Refuse(kKey, *value,
                         absl::StrCat("at most ", kMaxEosIds, " ids"));
  for (const nlohmann::json& id : list) {
    // A negative number turns into a large one, and is refused like it.
    if (!id.is_number_integer() ||
        id.get<uint64_t>() > std::numeric_limits<int32_t>::max())
      return fields.Refuse(kKey, *value,
                           "must be a token id or a list of token ids");
    ids->push_back(id.get<int32_t>());
  }
}

void ReadSampling(JsonFields& fields, GenerationConfig* config) {
  double temperature = config->temperature;
  double top_p = config->top_p;
  double min_p = config->min_p;
  int64_t top_k = config->top_k;
  bool do_sample = true;
  fields.Number("temperature", {0, kMaxTemperature}, &temperature,
                JsonFields::kOptional);
  fields.Number("top_p", {0, 1, true}, &top_p, JsonFields::kOptional);
  fields.Number("min_p", {0, 1}, &min_p, JsonFields::kOptional);
  fields.Int("top_k", 0, std::numeric_limits<int32_t>::max(), &top_k,
             JsonFields::kOptional);
  fields.Bool("do_sample", &do_sample);
  config->temperature = do_sample ? static_cast<float>(temperature) : 0.0f;
  config->top_p = static_cast<float>(top_p);
  config->min_p = static_cast<float>(min_p);
  config->top_k = static_cast<int32_t>(top_k);
}

absl::Status ReadConfigEos(absl::string_view text, std::vector<int32_t>* ids) {
  ASSIGN_OR_RETURN(const nlohmann::json root, ParseJsonObject(text));
  JsonFields fields(root, "");
  ReadEos(fields, ids);
  const nlohmann::json* nested = fields.Find("text_config");
  if (nested != nullptr && nested->is_object()) {
    JsonFields text_fields(*nested, "text_config.");
    ReadEos(text_fields, ids);
    fields.Refuse(text_fields.status());
  }
  return fields.status();
}

absl::Status ReadGeneration(absl::string_view text, GenerationConfig* config) {
  ASSIGN_OR_RETURN(const nlohmann::json root, ParseJsonObject(text));
  JsonFields fields(root, "");
  ReadEos(fields, &config->eos_token_ids);
  ReadSampling(fields, config);
  return fields.status();
}

}  // namespace

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& model_dir) {
  RETURN_IF_ERROR(RefuseForeignFiles(model_dir));
  const std::string path = absl::StrCat(model_dir, "/", kConfigName);
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxConfigBytes));
  auto config = ParseModelConfig(text);
  if (!config.ok()) return InFile(path, config.status());
  return config;
}

absl::StatusOr<GenerationConfig> ParseGenerationConfig(
    absl::string_view config_json,
    std::optional<absl::string_view> generation_json) {
  GenerationConfig config;
  const absl::Status of_config =
      ReadConfigEos(config_json, &config.eos_token_ids);
  if (!of_config.ok()) return InFile(kConfigName, of_config);
  if (generation_json.has_value()) {
    const absl::Status of_generation =
        ReadGeneration(*generation_json, &config);
    if (!of_generation.ok()) return InFile(kGenerationName, of_generation);
  }
  std::vector<int32_t>& ids = config.eos_token_ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return config;
}

absl::StatusOr<GenerationConfig> LoadGenerationConfig(
    const std::string& model_dir) {
  ASSIGN_OR_RETURN(
      const std::string config_json,
      ReadTextFile(absl::StrCat(model_dir, "/", kConfigName), kMaxConfigBytes));
  const auto text = ReadTextFile(absl::StrCat(model_dir, "/", kGenerationName),
                                 kMaxConfigBytes);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  std::optional<absl::string_view> generation_json;
  if (text.ok()) generation_json = *text;
  auto config = ParseGenerationConfig(config_json, generation_json);
  if (config.ok()) return config;
  return absl::Status(config.status().code(),
                      absl::StrCat(model_dir, "/", config.status().message()));
}

}  // namespace phalanx
