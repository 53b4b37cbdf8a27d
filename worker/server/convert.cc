#include "worker/server/convert.h"

namespace phalanx {

Request FromProto(const v1::WorkerGenerateRequest& proto) {
  Request request;
  request.id = proto.request_id();
  request.epoch = proto.epoch();
  request.prompt_ids.assign(proto.prompt_ids().begin(),
                            proto.prompt_ids().end());
  request.emitted_ids.assign(proto.emitted_ids().begin(),
                             proto.emitted_ids().end());
  request.sampling = {.temperature = proto.temperature(),
                      .top_p = proto.top_p(),
                      .top_k = proto.top_k(),
                      .min_p = proto.min_p(),
                      .seed = proto.seed(),
                      .choice_index = proto.choice_index()};
  request.max_tokens = proto.max_tokens();
  request.stop_ids.assign(proto.stop_ids().begin(), proto.stop_ids().end());
  request.logprobs = proto.logprobs();
  request.top_n = proto.top_n();
  request.priority = proto.priority();
  return request;
}

v1::WorkerToken ToProto(const Token& token) {
  v1::WorkerToken proto;
  proto.set_token_id(token.id);
  proto.set_logprob(token.logprob);
  for (const TopLogprob& top : token.top) {
    v1::WorkerTopLogprob* entry = proto.add_top();
    entry->set_token_id(top.id);
    entry->set_logprob(top.logprob);
  }
  return proto;
}

v1::WorkerFinished ToProto(FinishReason reason, int32_t stop_id) {
  v1::WorkerFinished proto;
  switch (reason) {
    case FinishReason::kStop:
      proto.set_reason(v1::WorkerFinished::STOP);
      proto.set_stop_id(stop_id);
      break;
    case FinishReason::kLength:
      proto.set_reason(v1::WorkerFinished::LENGTH);
      break;
  }
  return proto;
}

}  // namespace phalanx
