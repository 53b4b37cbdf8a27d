#include "worker/model_facts.h"

namespace phalanx {

v1::ModelFacts ModelFactsOf(const ModelConfig& config,
                            const GenerationConfig& generation,
                            WeightFormat format) {
  v1::ModelFacts facts;
  facts.set_model_type(config.model_type);
  facts.set_vocab_size(config.vocab_size);
  facts.set_num_layers(static_cast<int32_t>(config.num_layers()));
  facts.set_hidden_size(static_cast<int32_t>(config.hidden_size));
  facts.set_num_experts(static_cast<int32_t>(config.num_experts));
  facts.set_num_experts_per_token(
      static_cast<int32_t>(config.num_experts_per_tok));
  facts.set_weight_format(WeightFormatName(format));
  for (const int32_t id : generation.eos_token_ids) facts.add_stop_ids(id);
  facts.set_temperature(generation.temperature);
  facts.set_top_p(generation.top_p);
  facts.set_top_k(generation.top_k);
  facts.set_min_p(generation.min_p);
  return facts;
}

}  // namespace phalanx
