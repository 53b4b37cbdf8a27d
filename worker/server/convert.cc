#include "worker/server/convert.h"

#include <algorithm>

namespace phalanx {
namespace {

std::vector<int32_t> Ascending(
    const google::protobuf::RepeatedField<int32_t>& ids) {
  std::vector<int32_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

}  // namespace

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
                      .choice_index = proto.choice_index(),
                      .presence = proto.presence_penalty(),
                      .frequency = proto.frequency_penalty(),
                      .repetition = proto.has_repetition_penalty()
                                        ? proto.repetition_penalty()
                                        : 1,
                      .repetition_window = proto.repetition_window()};
  // A map has no order of its own; the sampler's is ascending ids.
  request.sampling.logit_bias.assign(proto.logit_bias().begin(),
                                     proto.logit_bias().end());
  std::sort(request.sampling.logit_bias.begin(),
            request.sampling.logit_bias.end());
  request.sampling.allowed_ids = Ascending(proto.allowed_ids());
  request.sampling.banned_ids = Ascending(proto.banned_ids());
  request.max_tokens = proto.max_tokens();
  request.min_tokens = proto.min_tokens();
  request.anchors.assign(proto.anchors().begin(), proto.anchors().end());
  request.cache = {.salt = proto.cache_salt(), .bypass = proto.cache_bypass()};
  request.key = proto.key();
  request.prompt_logprobs = proto.prompt_logprobs();
  if (proto.has_timeout_ms())
    request.timeout_seconds = static_cast<double>(proto.timeout_ms()) / 1e3;
  if (proto.has_max_time_ms())
    request.max_time_seconds = static_cast<double>(proto.max_time_ms()) / 1e3;
  request.suspect = proto.suspect();
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
    case FinishReason::kTimeLimit:
      proto.set_reason(v1::WorkerFinished::TIME_LIMIT);
      break;
  }
  return proto;
}

}  // namespace phalanx
