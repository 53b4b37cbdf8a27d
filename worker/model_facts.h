#ifndef PHALANX_WORKER_MODEL_FACTS_H_
#define PHALANX_WORKER_MODEL_FACTS_H_

#include "kernels/weight_format.h"
#include "worker.pb.h"
#include "worker/checkpoint/model_config.h"

namespace phalanx {

// What a gateway is told of the model, which reads neither file itself.
v1::ModelFacts ModelFactsOf(const ModelConfig& config,
                            const GenerationConfig& generation,
                            WeightFormat format);

}  // namespace phalanx

#endif  // PHALANX_WORKER_MODEL_FACTS_H_
