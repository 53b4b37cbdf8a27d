#include "gateway/cli/service_check.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/grpc_status.h"
#include "common/reason.h"
#include "common/status.h"
#include "gateway/cli/client.h"
#include "health.grpc.pb.h"

namespace phalanx {
namespace {

constexpr int64_t kAnswerTokens = 8;
// Long enough not to end by itself on a fast service before the cancel comes.
constexpr int64_t kLongAnswerTokens = 4096;
constexpr int64_t kLeastLongTokens = 64;
constexpr std::chrono::milliseconds kPollPeriod{20};

// The connection, and what the checks learn for each other.
struct Connection {
  const CheckedService& service;
  const Clock& clock;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
  std::unique_ptr<v1::Inference::Stub> inference;
  std::unique_ptr<v1::Admin::Stub> admin;  // Null: not known.
  v1::GetModelResponse model;
};

Connection Connect(const CheckedService& service, const Clock& clock) {
  const auto channel = ChannelTo(service.address);
  Connection connection{.service = service,
                        .clock = clock,
                        .health = grpc::health::v1::Health::NewStub(channel),
                        .inference = v1::Inference::NewStub(channel),
                        .admin = nullptr,
                        .model = {}};
  if (!service.admin_address.empty())
    connection.admin = v1::Admin::NewStub(ChannelTo(service.admin_address));
  return connection;
}

// A context of one call; a check's calls share no deadline, but each is bound.
void SetDeadline(const Connection& c, grpc::ClientContext& context) {
  context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::duration<double>(c.service.timeout_seconds)));
}

// What the service said, in one word: "CANCELLED/CLIENT", "OK".
std::string Word(const absl::Status& status) {
  const Reason reason = ReasonOf(status);
  return absl::StrCat(absl::StatusCodeToString(status.code()),
                      reason.word.empty() ? "" : "/", reason.word);
}

// Each check: what was seen, or what is wrong.

absl::StatusOr<std::string> CheckHealth(Connection& c) {
  using Response = grpc::health::v1::HealthCheckResponse;
  grpc::ClientContext context;
  SetDeadline(c, context);
  Response response;
  const absl::Status status =
      FromGrpc(c.health->Check(&context, {}, &response));
  if (absl::IsUnavailable(status) && ReasonOf(status).word.empty())
    return absl::UnavailableError(absl::StrCat(
        "no service answers at ", c.service.address, ": ", status.message()));
  if (!status.ok()) return absl::Status(status.code(), Describe(status));
  if (response.status() != Response::SERVING)
    return absl::UnavailableError(absl::StrCat(
        "the service says ", Response::ServingStatus_Name(response.status()),
        "; `phalanx status` shows its ranks"));
  return "SERVING";
}

v1::GenerateRequest Request(const Connection& c, int64_t max_tokens) {
  v1::GenerateRequest request;
  if (c.model.has_tokenizer())
    request.set_text("One, two, three,");
  else
    request.mutable_token_ids()->add_ids(0);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

// A stream waits for a group that is lost to come back, so that time may run
// out before anybody has said what is wrong; health knows by then.
absl::Status GenerationError(Connection& c, const absl::Status& status) {
  std::string what = Describe(status);
  if (absl::IsDeadlineExceeded(status))
    if (const auto health = CheckHealth(c); !health.ok())
      absl::StrAppend(&what, "; by now ", health.status().message());
  return absl::Status(status.code(), what);
}

absl::StatusOr<std::string> CheckGeneration(Connection& c) {
  grpc::ClientContext ask_context;
  SetDeadline(c, ask_context);
  absl::Status status =
      FromGrpc(c.inference->GetModel(&ask_context, {}, &c.model));
  if (!status.ok())
    return absl::Status(status.code(), "GetModel: " + Describe(status));
  grpc::ClientContext context;
  SetDeadline(c, context);
  const auto stream =
      c.inference->Generate(&context, Request(c, kAnswerTokens));
  int64_t tokens = 0;
  std::optional<v1::Summary> summary;
  v1::GenerateEvent event;
  while (stream->Read(&event)) {
    tokens += event.delta().token_ids_size();
    if (event.has_summary()) summary = event.summary();
  }
  status = FromGrpc(stream->Finish());
  if (!status.ok()) return GenerationError(c, status);
  if (tokens != kAnswerTokens || !summary)
    return absl::InternalError(absl::StrCat(
        "the answer has ", tokens, " tokens and ", summary ? "a" : "no",
        " summary; asked for ", kAnswerTokens));
  return absl::StrFormat("%s: %d tokens, first after %.0f ms", c.model.name(),
                         tokens, summary->time_to_first_token_seconds() * 1e3);
}

// A stream that runs until it is cancelled.
class LongAnswer {
 public:
  // Whatever went wrong, it does not run on for nobody.
  ~LongAnswer() {
    if (context_ != nullptr) context_->TryCancel();
  }

  // Returns with the first token. What is too long for the service's KV cache
  // is tried shorter.
  absl::Status Start(const Connection& c) {
    // An id that no other check has.
    std::random_device device;
    id_ = absl::StrFormat("check-%08x%08x", device(), device());
    int64_t max_tokens = std::clamp(c.model.max_model_len() / 2,
                                    kLeastLongTokens, kLongAnswerTokens);
    absl::Status status = Try(c, max_tokens);
    while (ReasonOf(status).word == "NEVER_FITS" &&
           max_tokens > kLeastLongTokens) {
      max_tokens /= 2;
      status = Try(c, max_tokens);
    }
    return status;
  }

  // How the stream ended.
  absl::Status End() {
    v1::GenerateEvent event;
    while (stream_->Read(&event)) tokens_ += event.delta().token_ids_size();
    return FromGrpc(stream_->Finish());
  }

  const std::string& id() const { return id_; }
  int64_t tokens() const { return tokens_; }

 private:
  absl::Status Try(const Connection& c, int64_t max_tokens) {
    context_ = std::make_unique<grpc::ClientContext>();
    SetDeadline(c, *context_);
    v1::GenerateRequest request = Request(c, max_tokens);
    request.set_request_id(id_);
    stream_ = c.inference->Generate(context_.get(), request);
    v1::GenerateEvent event;
    while (stream_->Read(&event)) {
      tokens_ += event.delta().token_ids_size();
      if (tokens_ > 0) return absl::OkStatus();
    }
    const absl::Status status = FromGrpc(stream_->Finish());
    return status.ok() ? absl::InternalError("the answer has no token")
                       : status;
  }

  std::string id_;
  std::unique_ptr<grpc::ClientContext> context_;  // Outlives the stream.
  std::unique_ptr<grpc::ClientReader<v1::GenerateEvent>> stream_;
  int64_t tokens_ = 0;
};

// -1 where Admin is not known.
absl::StatusOr<int64_t> RequestsRunning(const Connection& c) {
  if (c.admin == nullptr) return -1;
  grpc::ClientContext context;
  SetDeadline(c, context);
  v1::GetStatusResponse response;
  const absl::Status status =
      FromGrpc(c.admin->GetStatus(&context, {}, &response));
  if (!status.ok())
    return absl::Status(
        status.code(),
        absl::StrCat("no status from the operators' port ",
                     c.service.admin_address, ": ", Describe(status)));
  return response.requests_running();
}

// Whether a stream of this id ran until now.
absl::StatusOr<bool> Cancel(const Connection& c, const std::string& id) {
  grpc::ClientContext context;
  SetDeadline(c, context);
  v1::CancelRequest request;
  request.add_request_ids(id);
  v1::CancelResponse response;
  const absl::Status status =
      FromGrpc(c.inference->Cancel(&context, request, &response));
  if (!status.ok())
    return absl::Status(status.code(), "Cancel: " + Describe(status));
  return response.cancelled() == 1;
}

// Until the request `id` is forgotten and no more requests run than `before`;
// how many that are.
absl::StatusOr<int64_t> WaitGone(const Connection& c, const std::string& id,
                                 int64_t before) {
  const double until = c.clock.now_seconds() + c.service.timeout_seconds;
  while (true) {
    ASSIGN_OR_RETURN(const bool runs, Cancel(c, id));
    ASSIGN_OR_RETURN(const int64_t running, RequestsRunning(c));
    if (!runs && running <= before) return running;
    if (c.clock.now_seconds() > until)
      return absl::DeadlineExceededError(
          runs ? absl::StrCat("the stream has ended, but the gateway still "
                              "holds the request after ",
                              c.service.timeout_seconds, " s")
               : absl::StrCat("requests_running is ", running, " after ",
                              c.service.timeout_seconds, " s; it was ", before,
                              " before"));
    std::this_thread::sleep_for(kPollPeriod);
  }
}

absl::StatusOr<std::string> CheckCancel(Connection& c) {
  ASSIGN_OR_RETURN(const int64_t before, RequestsRunning(c));
  LongAnswer answer;
  if (const absl::Status started = answer.Start(c); !started.ok())
    return absl::Status(started.code(), Describe(started));
  ASSIGN_OR_RETURN(const int64_t during, RequestsRunning(c));
  if (during == 0)
    return absl::InternalError(absl::StrCat(
        "requests_running is 0 while a request runs; ", c.service.admin_address,
        " must be the operators' port of the gateway at ", c.service.address));
  const double asked = c.clock.now_seconds();
  ASSIGN_OR_RETURN(const bool ran, Cancel(c, answer.id()));
  const absl::Status end = answer.End();
  const double took = c.clock.now_seconds() - asked;
  if (Word(end) != "CANCELLED/CLIENT")
    return absl::InternalError(absl::StrCat(
        "the stream ended ", Word(end), " after ", answer.tokens(), " tokens",
        end.ok() ? "" : absl::StrCat(" (", end.message(), ")"),
        ran ? "" : "; Cancel did not find it", "; must be CANCELLED/CLIENT"));
  ASSIGN_OR_RETURN(const int64_t after, WaitGone(c, answer.id(), before));
  return absl::StrFormat(
      "CANCELLED/CLIENT after %d %s, in %.0f ms; requests running: %s",
      answer.tokens(), answer.tokens() == 1 ? "token" : "tokens", took * 1e3,
      before < 0 ? "not seen without --admin-address"
                 : absl::StrJoin({before, during, after}, ", "));
}

}  // namespace

bool CheckService(const CheckedService& service, const Clock& clock,
                  const std::function<void(const CheckResult&)>& on_result) {
  using Check = absl::StatusOr<std::string> (*)(Connection&);
  constexpr std::pair<const char*, Check> kChecks[] = {
      {"health", CheckHealth},
      {"generation", CheckGeneration},
      {"cancel", CheckCancel}};
  Connection connection = Connect(service, clock);
  bool well = true;
  for (const auto& [name, check] : kChecks) {
    CheckResult result{.name = name,
                       .outcome = CheckResult::Outcome::kSkipped,
                       .detail = "",
                       .seconds = 0};
    if (well) {
      const double started = clock.now_seconds();
      const absl::StatusOr<std::string> seen = check(connection);
      result.seconds = clock.now_seconds() - started;
      well = seen.ok();
      result.outcome =
          well ? CheckResult::Outcome::kOk : CheckResult::Outcome::kFailed;
      result.detail = well ? *seen : std::string(seen.status().message());
    }
    on_result(result);
  }
  return well;
}

}  // namespace phalanx
