#include "worker/quantise/quantised_config.h"

#include <nlohmann/json.hpp>

#include "common/status.h"
#include "kernels/quantise.h"
#include "worker/checkpoint/json_fields.h"

namespace phalanx {
namespace {

// Where formats are written in the files of this family.
constexpr const char* kFormatKeys[] = {"quantization_config",
                                       "compression_config"};

}  // namespace

absl::StatusOr<std::string> QuantisedConfig(absl::string_view config_json,
                                            WeightFormat format,
                                            const CodesOrigin& origin) {
  RETURN_IF_ERROR(ParseJsonObject(config_json).status());
  auto root =
      nlohmann::ordered_json::parse(config_json.begin(), config_json.end());
  for (const char* key : kFormatKeys) {
    root.erase(key);
    if (auto text = root.find("text_config");
        text != root.end() && text->is_object())
      text->erase(key);
  }
  root["quantization_config"] = {{"quant_method", std::string(kOwnQuantMethod)},
                                 {"weights", WeightFormatName(format)},
                                 {"version", kQuantiserVersion},
                                 {"digest", origin.digest},
                                 {"source_digest", origin.source_digest}};
  return root.dump(2) + "\n";
}

}  // namespace phalanx
