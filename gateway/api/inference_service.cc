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
absl::StatusOr<PreparedRequest> InferenceService::Accept(
    const grpc::ByteBuffer& bytes, Ticket& ticket, Router::Route& route,
    bool& model_known) {
  ASSIGN_OR_RETURN(Request request, Parse<Request>(bytes));
  model_known = request.model().empty() || request.model() == text_.name;
  GiveSeed(request);
  ASSIGN_OR_RETURN(ticket, admission_.Enter());
  ASSIGN_OR_RETURN(const std::shared_ptr<const WorkerGroup::View> view,
                   router_.ReadyView());
  ASSIGN_OR_RETURN(PreparedRequest prepared,
                   Prepare(request, text_, view->leader()));
  ASSIGN_OR_RETURN(
      route,
      router_.Pick({.prompt_ids = {prepared.worker.prompt_ids().data(),
                                   static_cast<size_t>(
                                       prepared.worker.prompt_ids_size())},
                    .cache_salt = prepared.worker.cache_salt(),
                    .numerics_id = ""}));
  const v1::WorkerStatus& leader = route.view().leader();
  prepared.worker.set_epoch(leader.epoch());
  prepared.accepted.set_epoch(leader.epoch());
  prepared.accepted.set_numerics_id(leader.numerics_id());
  return prepared;
}

template <typename Request>
grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Serve(
    const grpc::CallbackServerContext& context, const grpc::ByteBuffer& bytes) {
  const Generation::Arrival arrival = {
      .seconds = clock_.now_seconds(),
      .timeout_seconds = SecondsUntil(context.deadline())};
  Ticket ticket;
  Router::Route route;
  bool model_known = false;
  absl::StatusOr<PreparedRequest> prepared =
      Accept<Request>(bytes, ticket, route, model_known);
  if (!prepared.ok()) {
    RequestEnd end;
    end.model_known = model_known;
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
                            .observer = observer_},
                           *std::move(prepared), std::move(ticket),
                           std::move(route), arrival);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  return Serve<v1::GenerateRequest>(*context, *bytes);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Chat(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  return Serve<v1::ChatRequest>(*context, *bytes);
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
