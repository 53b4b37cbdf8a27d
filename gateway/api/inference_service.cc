#include "gateway/api/inference_service.h"

#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/log.h"
#include "common/reason.h"
#include "common/status.h"
#include "gateway/api/generation.h"
#include "gateway/api/request_check.h"

namespace phalanx {
namespace {

// A stream that ends before it began.
class RefusedStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedStream(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

template <typename Request>
absl::StatusOr<Request> Parse(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok())
    return absl::InternalError("the request could not be read");
  std::string flat;
  for (const grpc::Slice& slice : slices)
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  Request request;
  if (!request.ParseFromString(flat))
    return ReasonedError(
        absl::StatusCode::kInvalidArgument, "INVALID_UTF8",
        absl::StrCat("the ", flat.size(), " bytes are no ",
                     request.GetDescriptor()->name(),
                     ": a string in them is not valid UTF-8, or they are "
                     "malformed"));
  return request;
}

// Infinite where no deadline was set.
double SecondsUntil(std::chrono::system_clock::time_point deadline) {
  if (deadline == std::chrono::system_clock::time_point::max())
    return std::numeric_limits<double>::infinity();
  return std::chrono::duration<double>(deadline -
                                       std::chrono::system_clock::now())
      .count();
}

// Of what is asked; the id is the client's to change.
template <typename Request>
std::string DigestOf(Request& request) {
  const std::string id = request.request_id();
  request.clear_request_id();
  std::string digest = RequestDigest(request);
  request.set_request_id(id);
  return digest;
}

// What the client of a broken stream says that it has.
absl::Status CheckOrigin(const PreparedRequest& prepared,
                         const Generation::Origin& origin, int64_t vocab_size) {
  const size_t n = prepared.n;
  if (origin.point->choices.size() != n)
    return BadResumeToken("is of another number of choices");
  if (!origin.seen_text.empty() &&
      origin.seen_text.size() != origin.emitted.size())
    return BadField("seen_text",
                    absl::StrCat("has ", origin.seen_text.size(),
                                 " entries; must be 0 or as many as emitted, ",
                                 origin.emitted.size()));
  for (size_t i = 0; i < origin.seen_text.size(); ++i)
    for (const int64_t bytes : origin.seen_text[i])
      if (bytes < 0)
        return BadField(absl::StrCat("seen_text[", i, "]"),
                        absl::StrCat("holds ", bytes, "; must be at least 0"));
  if (origin.emitted.empty()) return absl::OkStatus();
  if (origin.emitted.size() != n)
    return BadField("emitted",
                    absl::StrCat("has ", origin.emitted.size(),
                                 " lists; must be 0 or ", n, ", one a choice"));
  for (size_t i = 0; i < n; ++i) {
    const std::string field = absl::StrCat("emitted[", i, "]");
    const std::vector<int32_t>& ids = origin.emitted[i];
    const SentPart& sent = origin.point->choices[i];
    for (const int32_t id : ids)
      if (id < 0 || id >= vocab_size)
        return BadField(
            field, absl::StrCat("holds ", id, "; must be 0..", vocab_size - 1));
    const auto count = static_cast<int64_t>(ids.size());
    if (count < sent.tokens || count > prepared.worker.max_tokens())
      return BadField(
          field, absl::StrCat("has ", count, " ids; must be ", sent.tokens,
                              ", which were sent, to ",
                              prepared.worker.max_tokens(), ", max_tokens"));
    if (IdsDigest({ids.data(), static_cast<size_t>(sent.tokens)}) !=
        sent.ids_digest)
      return BadField(field, absl::StrCat("does not begin with the ",
                                          sent.tokens, " ids that were sent"));
  }
  return absl::OkStatus();
}

}  // namespace

// SplitMix64 of the request's place in line. Source: Steele, Lea, Flood 2014,
// doi:10.1145/2660193.2660195.
template <typename Request>
void InferenceService::GiveSeed(Request& request) {
  if (!seed_.has_value() || request.sampling().has_seed()) return;
  uint64_t z = *seed_ + (seeds_given_.fetch_add(1) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  request.mutable_sampling()->set_seed(z ^ (z >> 31));
}

template <typename Request>
absl::StatusOr<PreparedRequest> InferenceService::AcceptNew(
    const grpc::ByteBuffer& bytes, Incoming& incoming) {
  ASSIGN_OR_RETURN(Request request, Parse<Request>(bytes));
  incoming.origin.request_digest = DigestOf(request);
  GiveSeed(request);
  return Admit(std::move(request), incoming);
}

absl::StatusOr<PreparedRequest> InferenceService::AcceptResumed(
    const grpc::ByteBuffer& bytes, Incoming& incoming) {
  ASSIGN_OR_RETURN(v1::ResumeRequest request, Parse<v1::ResumeRequest>(bytes));
  ASSIGN_OR_RETURN(ResumePoint point, resuming_.key.Open(request.token()));
  std::vector<std::vector<int32_t>>& emitted = incoming.origin.emitted;
  for (const v1::TokenIds& ids : request.emitted())
    emitted.emplace_back(ids.ids().begin(), ids.ids().end());
  for (const v1::SeenText& seen : request.seen_text()) {
    TextBytes& bytes = incoming.origin.seen_text.emplace_back();
    bytes[v1::CHANNEL_CONTENT - v1::CHANNEL_CONTENT] = seen.content_bytes();
    bytes[v1::CHANNEL_REASONING - v1::CHANNEL_CONTENT] = seen.reasoning_bytes();
  }
  const auto go_on = [&](auto& original) -> absl::StatusOr<PreparedRequest> {
    incoming.origin.request_digest = DigestOf(original);
    if (incoming.origin.request_digest != point.request_digest)
      return BadResumeToken("is of another request");
    original.mutable_sampling()->set_seed(point.seed);
    incoming.origin.point = std::move(point);
    ASSIGN_OR_RETURN(PreparedRequest prepared,
                     Admit(std::move(original), incoming));
    RETURN_IF_ERROR(
        CheckOrigin(prepared, incoming.origin,
                    incoming.route.view().leader().model().vocab_size()));
    return prepared;
  };
  switch (request.original_case()) {
    case v1::ResumeRequest::kGenerate:
      return go_on(*request.mutable_generate());
    case v1::ResumeRequest::kChat:
      return go_on(*request.mutable_chat());
    case v1::ResumeRequest::ORIGINAL_NOT_SET:
      break;
  }
  return BadField("original", "is not set; must be generate or chat");
}

template <typename Request>
absl::StatusOr<PreparedRequest> InferenceService::Admit(Request request,
                                                        Incoming& incoming) {
  incoming.model_known =
      request.model().empty() || request.model() == text_.name;
  ASSIGN_OR_RETURN(incoming.ticket, admission_.Enter());
  ASSIGN_OR_RETURN(const std::shared_ptr<const WorkerGroup::View> view,
                   router_.ReadyView());
  ASSIGN_OR_RETURN(PreparedRequest prepared,
                   Prepare(request, text_, view->leader()));
  const std::optional<ResumePoint>& point = incoming.origin.point;
  ASSIGN_OR_RETURN(
      incoming.route,
      router_.Pick(
          {.prompt_ids = {prepared.worker.prompt_ids().data(),
                          static_cast<size_t>(
                              prepared.worker.prompt_ids_size())},
           .cache_salt = prepared.worker.cache_salt(),
           .numerics_id = point.has_value() ? point->numerics_id : ""}));
  const v1::WorkerStatus& leader = incoming.route.view().leader();
  prepared.worker.set_epoch(leader.epoch());
  prepared.accepted.set_epoch(leader.epoch());
  prepared.accepted.set_numerics_id(leader.numerics_id());
  return prepared;
}

template <typename Accept>
grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Serve(
    const grpc::CallbackServerContext& context, Accept accept) {
  const Generation::Arrival arrival = {
      .seconds = clock_.now_seconds(),
      .timeout_seconds = SecondsUntil(context.deadline())};
  Incoming incoming;
  absl::StatusOr<PreparedRequest> prepared = accept(incoming);
  if (!prepared.ok()) {
    RequestEnd end;
    end.model_known = incoming.model_known;
    end.outcome = OutcomeOf(prepared.status());
    end.status = prepared.status();
    end.seconds = clock_.now_seconds() - arrival.seconds;
    observer_.OnEnd(end);
    LogInfo("gateway", "request finished",
            {{"outcome", OutcomeName(end.outcome)},
             {"code", absl::StatusCodeToString(prepared.status().code())},
             {"reason", ReasonOf(prepared.status()).word},
             {"message", prepared.status().message()}});
    return new RefusedStream(prepared.status());
  }
  return Generation::Begin({.active = active_,
                            .router = router_,
                            .tokenizer = text_.tokenizer,
                            .clock = clock_,
                            .live = live_,
                            .observer = observer_,
                            .key = resuming_.key,
                            .limits = resuming_.limits},
                           *std::move(prepared), std::move(incoming.origin),
                           std::move(incoming.ticket),
                           std::move(incoming.route), arrival);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  return Serve(*context, [&](Incoming& incoming) {
    return AcceptNew<v1::GenerateRequest>(*bytes, incoming);
  });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Chat(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  return Serve(*context, [&](Incoming& incoming) {
    return AcceptNew<v1::ChatRequest>(*bytes, incoming);
  });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Resume(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  return Serve(*context, [&](Incoming& incoming) {
    return AcceptResumed(*bytes, incoming);
  });
}

grpc::ServerUnaryReactor* InferenceService::Cancel(
    grpc::CallbackServerContext* context, const v1::CancelRequest* request,
    v1::CancelResponse* response) {
  auto* reactor = context->DefaultReactor();
  int64_t cancelled = 0;
  for (const std::string& id : request->request_ids()) {
    const int64_t count = active_.Cancel(id);
    if (count == 0) response->add_not_found(id);
    cancelled += count;
  }
  if (!request->tag().empty()) cancelled += active_.CancelTag(request->tag());
  if (request->all()) cancelled += active_.CancelAll();
  response->set_cancelled(cancelled);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

std::shared_ptr<const WorkerGroup::View> InferenceService::FirstReachable()
    const {
  for (int64_t g = 0; g < router_.group_count(); ++g) {
    std::shared_ptr<const WorkerGroup::View> view = router_.group(g).view();
    if (view->ranks.front().reachable()) return view;
  }
  return nullptr;
}

grpc::ServerUnaryReactor* InferenceService::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest*,
    v1::GetModelResponse* response) {
  auto* reactor = context->DefaultReactor();
  const std::shared_ptr<const WorkerGroup::View> view = FirstReachable();
  if (view == nullptr) {
    reactor->Finish(ToGrpc(router_.NotReady()));
    return reactor;
  }
  const v1::WorkerStatus& leader = view->leader();
  const v1::ModelFacts& model = leader.model();
  response->set_name(text_.name);
  response->set_model_type(model.model_type());
  response->set_model_digest(leader.model_digest());
  response->set_numerics_id(leader.numerics_id());
  response->set_max_model_len(leader.max_model_len());
  response->set_vocab_size(model.vocab_size());
  response->set_num_layers(model.num_layers());
  response->set_hidden_size(model.hidden_size());
  response->set_num_experts(model.num_experts());
  response->set_num_experts_per_token(model.num_experts_per_token());
  response->set_has_tokenizer(text_.tokenizer != nullptr);
  response->set_has_chat_template(text_.chat_template != nullptr);
  response->set_tp_size(leader.tp_size());
  response->set_moe_mode(leader.moe_mode());
  response->set_device(leader.device());
  response->set_weight_format(model.weight_format());
  *response->mutable_stop_ids() = model.stop_ids();
  v1::Sampling& sampling = *response->mutable_default_sampling();
  sampling.set_temperature(model.temperature());
  sampling.set_top_p(model.top_p());
  sampling.set_top_k(model.top_k());
  sampling.set_min_p(model.min_p());
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace phalanx
