#include "gateway/api/prepare.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/reason.h"
#include "common/status.h"
#include "gateway/api/chat_context.h"
#include "gateway/api/request_check.h"
#include "gateway/chat/output_parser.h"

namespace phalanx {
namespace {

absl::Status NoTokenizer(absl::string_view field) {
  return ReasonedError(
      absl::StatusCode::kUnimplemented, "FEATURE_OFF",
      absl::StrCat(field,
                   " needs a tokenizer, and the model's folder has "
                   "none; send token_ids"),
      {{"feature", std::string(field)}});
}

// The chosen values: the request's, else the model's.
v1::Sampling Effective(const v1::Sampling& asked, const v1::ModelFacts& model) {
  v1::Sampling sampling;
  sampling.set_temperature(asked.has_temperature() ? asked.temperature()
                                                   : model.temperature());
  sampling.set_top_p(asked.has_top_p() ? asked.top_p() : model.top_p());
  sampling.set_top_k(asked.has_top_k() ? asked.top_k() : model.top_k());
  sampling.set_min_p(asked.has_min_p() ? asked.min_p() : model.min_p());
  sampling.set_seed(asked.has_seed() ? asked.seed() : RandomNumber());
  return sampling;
}

absl::Status SetMaxTokens(const v1::Stopping& stopping, int64_t prompt_tokens,
                          int64_t max_model_len, PreparedRequest& prepared) {
  if (prompt_tokens >= max_model_len)
    return ReasonedError(
        absl::StatusCode::kInvalidArgument, "PROMPT_TOO_LONG",
        absl::StrCat("the prompt has ", prompt_tokens, " tokens; at most ",
                     max_model_len - 1,
                     " leave room for an answer (--max-model-len)"),
        {{"limit", absl::StrCat(max_model_len - 1)},
         {"actual", absl::StrCat(prompt_tokens)}});
  const int64_t rest = max_model_len - prompt_tokens;
  int64_t max_tokens = rest;
  if (stopping.has_max_tokens()) {
    max_tokens = stopping.max_tokens();
    if (max_tokens < 1 || max_tokens > max_model_len)
      return BadField(
          "stopping.max_tokens",
          absl::StrCat("is ", max_tokens, "; must be 1..", max_model_len));
    prepared.truncated = max_tokens > rest;
    max_tokens = std::min(max_tokens, rest);
  }
  prepared.worker.set_max_tokens(max_tokens);
  prepared.accepted.set_max_tokens(max_tokens);
  return absl::OkStatus();
}

absl::Status CheckIds(absl::string_view field,
                      const google::protobuf::RepeatedField<int32_t>& ids,
                      int64_t vocab_size) {
  for (const int32_t id : ids)
    if (id < 0 || id >= vocab_size)
      return BadField(
          field, absl::StrCat("holds ", id, "; must be 0..", vocab_size - 1));
  return absl::OkStatus();
}

void SetStops(const v1::Stopping& stopping, const v1::ModelFacts& model,
              PreparedRequest& prepared) {
  std::set<int32_t> ids(stopping.stop_ids().begin(), stopping.stop_ids().end());
  if (!stopping.ignore_eos())
    ids.insert(model.stop_ids().begin(), model.stop_ids().end());
  for (const int32_t id : ids) prepared.worker.add_stop_ids(id);
  prepared.stop_strings.assign(stopping.stop_strings().begin(),
                               stopping.stop_strings().end());
  prepared.include_stop = stopping.include_stop();
}

void SetOutput(const v1::Output& output, bool has_tokenizer,
               PreparedRequest& prepared) {
  prepared.wants_text = output.has_text() ? output.text() : has_tokenizer;
  prepared.wants_ids = !output.has_token_ids() || output.token_ids();
  prepared.wants_logprobs = output.logprobs() || output.top_n() > 0;
  prepared.worker.set_logprobs(prepared.wants_logprobs);
  prepared.worker.set_top_n(output.top_n());
  prepared.echo = output.echo();
  prepared.prompt_logprobs = output.prompt_logprobs();
  prepared.worker.set_prompt_logprobs(output.prompt_logprobs());
}

// Everything that does not depend on where the prompt came from.
template <typename Request>
absl::StatusOr<PreparedRequest> Finish(const Request& request,
                                       std::vector<int32_t> prompt_ids,
                                       const ModelText& text,
                                       const v1::WorkerStatus& leader) {
  const v1::ModelFacts& model = leader.model();
  if (prompt_ids.empty())
    return ReasonedError(absl::StatusCode::kInvalidArgument, "PROMPT_EMPTY",
                         "the prompt has no tokens; must have at least one");
  RETURN_IF_ERROR(CheckIds("stopping.stop_ids", request.stopping().stop_ids(),
                           model.vocab_size()));
  PreparedRequest prepared;
  RETURN_IF_ERROR(SetMaxTokens(request.stopping(), prompt_ids.size(),
                               leader.max_model_len(), prepared));
  SetStops(request.stopping(), model, prepared);
  SetOutput(request.output(), text.tokenizer != nullptr, prepared);
  if (text.tokenizer == nullptr && request.output().text())
    return NoTokenizer("output.text");
  if (text.tokenizer == nullptr && !prepared.stop_strings.empty())
    return NoTokenizer("stopping.stop_strings");
  const v1::Sampling sampling = Effective(request.sampling(), model);
  v1::WorkerGenerateRequest& worker = prepared.worker;
  worker.set_epoch(leader.epoch());
  const std::string drawn =
      absl::StrCat(absl::Hex(RandomNumber(), absl::kZeroPad16));
  worker.set_request_id(drawn);
  prepared.request_id =
      request.request_id().empty() ? drawn : request.request_id();
  worker.mutable_prompt_ids()->Add(prompt_ids.begin(), prompt_ids.end());
  worker.set_temperature(sampling.temperature());
  worker.set_top_p(sampling.top_p());
  worker.set_top_k(sampling.top_k());
  worker.set_min_p(sampling.min_p());
  worker.set_seed(sampling.seed());
  worker.set_priority(request.priority());
  v1::Accepted& accepted = prepared.accepted;
  accepted.set_model(text.name);
  accepted.set_model_digest(leader.model_digest());
  accepted.set_numerics_id(leader.numerics_id());
  accepted.set_epoch(leader.epoch());
  accepted.set_prompt_tokens(static_cast<int64_t>(prompt_ids.size()));
  *accepted.mutable_sampling() = sampling;
  prepared.n = request.has_n() ? request.n() : 1;
  if (request.stopping().has_max_time_ms())
    prepared.max_time_ms = request.stopping().max_time_ms();
  prepared.tag = request.tag();
  prepared.user = request.user();
  return prepared;
}

absl::Status CheckModel(const std::string& asked, const ModelText& text) {
  if (asked.empty() || asked == text.name) return absl::OkStatus();
  return ReasonedError(
      absl::StatusCode::kNotFound, "MODEL",
      absl::StrCat("model ", asked, " is not served; ", text.name, " is"));
}

// The tokenizer's own words, with the reason of a bad text.
absl::Status TextError(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return status;
  return ReasonedError(status.code(),
                       absl::StrContains(status.message(), "UTF-8")
                           ? "INVALID_UTF8"
                           : "BAD_FIELD",
                       status.message());
}

}  // namespace

uint64_t RandomNumber() {
  thread_local std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

absl::StatusOr<PreparedRequest> Prepare(const v1::GenerateRequest& request,
                                        const ModelText& text,
                                        const v1::WorkerStatus& leader) {
  RETURN_IF_ERROR(CheckModel(request.model(), text));
  RETURN_IF_ERROR(CheckRequest(request));
  std::vector<int32_t> ids(request.token_ids().ids().begin(),
                           request.token_ids().ids().end());
  RETURN_IF_ERROR(CheckIds("token_ids", request.token_ids().ids(),
                           leader.model().vocab_size()));
  if (request.prompt_case() == v1::GenerateRequest::kText) {
    if (text.tokenizer == nullptr) return NoTokenizer("text");
    auto encoded = text.tokenizer->Encode(request.text());
    if (!encoded.ok()) return TextError(encoded.status());
    ids = *std::move(encoded);
  }
  return Finish(request, std::move(ids), text, leader);
}

absl::StatusOr<PreparedRequest> Prepare(const v1::ChatRequest& request,
                                        const ModelText& text,
                                        const v1::WorkerStatus& leader) {
  RETURN_IF_ERROR(CheckModel(request.model(), text));
  RETURN_IF_ERROR(CheckRequest(request));
  if (text.tokenizer == nullptr) return NoTokenizer("messages");
  if (text.chat_template == nullptr)
    return ReasonedError(absl::StatusCode::kUnimplemented, "FEATURE_OFF",
                         "the model's folder has no chat template",
                         {{"feature", "messages"}});
  const ChatContext context = ToChatContext(request);
  absl::StatusOr<std::string> prompt = text.chat_template->Render(context);
  if (!prompt.ok())
    return ReasonedError(absl::StatusCode::kInvalidArgument, "BAD_FIELD",
                         absl::StrCat("messages: ", prompt.status().message()),
                         {{"field", "messages"}});
  auto ids = text.tokenizer->Encode(*prompt);
  if (!ids.ok()) return TextError(ids.status());
  ASSIGN_OR_RETURN(PreparedRequest prepared,
                   Finish(request, *std::move(ids), text, leader));
  prepared.starts_in_reasoning = PromptOpensReasoning(*prompt);
  return prepared;
}

}  // namespace phalanx
