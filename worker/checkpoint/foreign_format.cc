#include "worker/checkpoint/foreign_format.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/checkpoint/json_fields.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// Files that stand beside quantised weights whatever config.json says.
constexpr struct {
  absl::string_view file;
  absl::string_view format;
} kFormatFiles[] = {{"quantize_config.json", "GPTQ"},
                    {"quant_config.json", "AWQ"}};

constexpr char kModeloptName[] = "hf_quant_config.json";

constexpr struct {
  absl::string_view suffix;
  absl::string_view format;
} kTensorSuffixes[] = {
    {".qweight", "GPTQ or AWQ"},
    {".qzeros", "GPTQ or AWQ"},
    {".g_idx", "GPTQ"},
    {".weight_packed", "compressed-tensors"},
    {".weight_global_scale", "compressed-tensors NVFP4"},
    {".weight_scale_2", "modelopt NVFP4"},
};

// {"quantization": {"quant_algo": "NVFP4"}}
std::string ModeloptAlgorithm(const std::string& path) {
  const auto text = ReadTextFile(path, kMaxConfigBytes);
  if (!text.ok()) return "modelopt";
  const auto root = ParseJsonObject(*text);
  if (!root.ok()) return "modelopt";
  const nlohmann::json* quantization =
      JsonFields(*root, "").Find("quantization");
  if (quantization == nullptr || !quantization->is_object()) return "modelopt";
  const nlohmann::json* algorithm =
      JsonFields(*quantization, "").Find("quant_algo");
  if (algorithm == nullptr) return "modelopt";
  return absl::StrCat("modelopt ", RenderJson(*algorithm));
}

// Names of the files of a folder, sorted; empty where it cannot be read.
std::vector<std::string> FilesOf(const std::string& model_dir) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(model_dir, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

absl::Status NotServed(absl::string_view what, absl::string_view rule) {
  return absl::UnimplementedError(absl::StrCat(
      what, ", which is not served", rule.empty() ? "" : "; ", rule,
      ": use the block-FP8 or the bf16 release of this model, in safetensors"));
}

absl::Status RefuseForeignFiles(const std::string& model_dir) {
  if (absl::EndsWith(model_dir, ".gguf"))
    return NotServed(absl::StrCat(model_dir, " is a GGUF"));
  const std::vector<std::string> names = FilesOf(model_dir);
  const auto has = [&](absl::string_view name) {
    return std::binary_search(names.begin(), names.end(), std::string(name));
  };
  const auto ends = [&](absl::string_view ending) {
    return std::find_if(
        names.begin(), names.end(),
        [&](const std::string& name) { return absl::EndsWith(name, ending); });
  };
  for (const auto& [file, format] : kFormatFiles) {
    if (has(file))
      return NotServed(absl::StrCat(model_dir, "/", file,
                                    " says that the weights are in ", format));
  }
  if (has(kModeloptName)) {
    const std::string path = absl::StrCat(model_dir, "/", kModeloptName);
    return NotServed(absl::StrCat(path, " says that the weights are in ",
                                  ModeloptAlgorithm(path)));
  }
  // Beside safetensors these are another copy of the same model.
  if (ends(".safetensors") != names.end()) return absl::OkStatus();
  if (const auto gguf = ends(".gguf"); gguf != names.end())
    return NotServed(absl::StrCat(model_dir, "/", *gguf, " is a GGUF"));
  for (absl::string_view ending : {".bin", ".pt", ".pth"}) {
    if (const auto pickle = ends(ending); pickle != names.end())
      return NotServed(
          absl::StrCat(model_dir, "/", *pickle, " holds pickled weights"));
  }
  return absl::OkStatus();
}

absl::string_view ForeignFormatOfTensor(absl::string_view name) {
  for (const auto& [suffix, format] : kTensorSuffixes)
    if (absl::EndsWith(name, suffix)) return format;
  return "";
}

}  // namespace phalanx
