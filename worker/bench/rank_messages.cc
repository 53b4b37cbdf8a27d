#include "worker/bench/rank_messages.h"

namespace phalanx {

nlohmann::json ToJson(const PassRequest& request) {
  return {{"kind", static_cast<int>(request.c.kind)},
          {"rows", request.c.rows},
          {"context", request.c.context},
          {"seconds", request.seconds},
          {"seed", request.seed},
          {"timing", request.timing}};
}

PassRequest PassRequestOf(const nlohmann::json& json) {
  return {.c = {.kind = static_cast<CaseKind>(json["kind"].get<int>()),
                .rows = json["rows"],
                .context = json["context"]},
          .seconds = json["seconds"],
          .seed = json["seed"],
          .timing = json["timing"]};
}

nlohmann::json ToJson(const PassResult& result) {
  nlohmann::json work = nlohmann::json::array();
  for (const auto field : kWorkFields) work.push_back(result.work.*field);
  nlohmann::json products = nlohmann::json::array();
  for (const Product& sum : result.work.products.entries())
    products.push_back({sum.part, sum.peak, sum.bytes, sum.flops});
  return {{"passes", result.passes},
          {"seconds", result.seconds},
          {"work", work},
          {"products", products},
          {"parts", result.parts}};
}

PassResult PassResultOf(const nlohmann::json& json) {
  PassResult result;
  result.passes = json["passes"];
  result.seconds = json["seconds"];
  for (size_t i = 0; i < kWorkFields.size(); ++i)
    result.work.*kWorkFields[i] = json["work"][i];
  for (const nlohmann::json& sum : json["products"])
    result.work.products.Add(
        {.part = sum[0], .peak = sum[1], .bytes = sum[2], .flops = sum[3]});
  result.parts = json["parts"].get<PartSeconds>();
  return result;
}

nlohmann::json ToJson(const RankFacts& facts) {
  return {{"kernel_family", facts.kernel_family},
          {"instruction_set", facts.instruction_set},
          {"moe_mode", facts.moe_mode},
          {"weights", facts.weights},
          {"threads", facts.threads},
          {"load_seconds", facts.load_seconds},
          {"planned_bytes", facts.planned_bytes}};
}

RankFacts RankFactsOf(const nlohmann::json& json) {
  return {.kernel_family = json["kernel_family"],
          .instruction_set = json["instruction_set"],
          .moe_mode = json["moe_mode"],
          .weights = json["weights"],
          .threads = json["threads"],
          .load_seconds = json["load_seconds"],
          .planned_bytes = json["planned_bytes"]};
}

}  // namespace phalanx
