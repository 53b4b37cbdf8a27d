#include "tests/gateway/api/scripted_answer.h"

#include <algorithm>

#include "common/grpc_status.h"
#include "common/reason.h"

namespace phalanx {

void ScriptedAnswer::Write(const v1::WorkerGenerateRequest& request,
                           FakeWorker::Writer& writer, size_t until) const {
  v1::WorkerGenerateEvent first;
  first.set_queue_seconds(0);
  if (!writer.Write(first)) return;
  const std::vector<int32_t>& ids = ids_[request.choice_index()];
  for (size_t i = request.emitted_ids_size(); i < std::min(until, ids.size());
       ++i) {
    v1::WorkerGenerateEvent event = TokensEvent({ids[i]});
    if (request.logprobs())
      event.mutable_tokens(0)->set_logprob(-static_cast<float>(i + 1) / 8);
    if (!writer.Write(event)) return;
  }
}

grpc::Status ScriptedAnswer::Run(const v1::WorkerGenerateRequest& request,
                                 FakeWorker::Writer& writer) const {
  const std::vector<int32_t>& ids = ids_[request.choice_index()];
  Write(request, writer, ids.size());
  const auto& stops = request.stop_ids();
  const bool stop = !ids.empty() && std::find(stops.begin(), stops.end(),
                                              ids.back()) != stops.end();
  writer.Write(stop ? FinishedEvent(v1::WorkerFinished::STOP, ids.back())
                    : FinishedEvent(v1::WorkerFinished::LENGTH));
  return grpc::Status::OK;
}

void Received::Add(const std::vector<v1::GenerateEvent>& events) {
  for (const v1::GenerateEvent& event : events) {
    if (event.has_accepted()) accepted = event.accepted();
    if (event.has_notice()) notices.push_back(event.notice());
    if (event.has_prompt()) prompt += event.prompt().DebugString();
    if (event.has_summary()) summary = event.summary();
    if (event.has_finished())
      choices[event.finished().index()].finished +=
          event.finished().DebugString();
    if (!event.has_delta()) continue;
    const v1::Delta& delta = event.delta();
    ReceivedChoice& choice = choices[delta.index()];
    if (!delta.text().empty()) choice.text[delta.channel()] += delta.text();
    choice.ids.insert(choice.ids.end(), delta.token_ids().begin(),
                      delta.token_ids().end());
    for (const v1::TokenLogprob& logprob : delta.logprobs())
      choice.logprobs.emplace_back(logprob.token_id(), logprob.logprob());
  }
}

grpc::Status GroupLost(bool in_step) {
  return ToGrpc(ReasonedError(absl::StatusCode::kUnavailable, "GROUP_LOST",
                              "rank 1 is gone",
                              {{"epoch", "7"},
                               {"rank", "1"},
                               {"cause", "its socket closed"},
                               {"in_step", in_step ? "true" : "false"}}));
}

}  // namespace phalanx
