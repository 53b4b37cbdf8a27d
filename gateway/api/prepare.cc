#include "gateway/api/prepare.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/reason.h"
#include "common/status.h"
#include "gateway/api/anchors.h"
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
  sampling.set_presence_penalty(asked.presence_penalty());
  sampling.set_frequency_penalty(asked.frequency_penalty());
  sampling.set_repetition_penalty(
      asked.has_repetition_penalty() ? asked.repetition_penalty() : 1);
  sampling.set_repetition_window(asked.repetition_window());
  *sampling.mutable_logit_bias() = asked.logit_bias();
  *sampling.mutable_allowed_ids() = asked.allowed_ids();
  *sampling.mutable_banned_ids() = asked.banned_ids();
  sampling.set_seed(asked.has_seed() ? asked.seed() : RandomNumber());
  return sampling;
}

absl::Status CheckPromptLength(int64_t prompt_tokens, int64_t max_model_len) {
  if (prompt_tokens == 0)
    return ReasonedError(absl::StatusCode::kInvalidArgument, "PROMPT_EMPTY",
                         "the prompt has no tokens; must have at least one");
  if (prompt_tokens >= max_model_len)
    return ReasonedError(
        absl::StatusCode::kInvalidArgument, "PROMPT_TOO_LONG",
        absl::StrCat("the prompt has ", prompt_tokens, " tokens; at most ",
                     max_model_len - 1,
                     " leave room for an answer (--max-model-len)"),
        {{"limit", absl::StrCat(max_model_len - 1)},
         {"actual", absl::StrCat(prompt_tokens)}});
  return absl::OkStatus();
}

// Bounds of the answer of a prompt that leaves room for one.
absl::Status SetLengths(const v1::Stopping& stopping, const v1::Output& output,
                        int64_t prompt_tokens, int64_t max_model_len,
                        PreparedRequest& prepared) {
  const int64_t rest = max_model_len - prompt_tokens;
  const bool may_be_empty = output.prompt_logprobs() || output.echo();
  int64_t most = max_model_len;
  if (stopping.has_max_tokens()) {
    most = stopping.max_tokens();
    if (most < (may_be_empty ? 0 : 1) || most > max_model_len)
      return BadField(
          "stopping.max_tokens",
          absl::StrCat("is ", most, "; must be ", may_be_empty ? 0 : 1, "..",
                       max_model_len,
                       most == 0 ? ", or 0 with output.prompt_logprobs or "
                                   "output.echo"
                                 : ""));
    prepared.truncated = most > rest;
  }
  const int64_t least = stopping.min_tokens();
  if (least < 0 || least > most)
    return BadField(
        "stopping.min_tokens",
        absl::StrCat("is ", least, "; must be 0..", most,
                     stopping.has_max_tokens() ? ", stopping.max_tokens" : ""));
  const int64_t max_tokens = std::min(most, rest);
  prepared.worker.set_max_tokens(max_tokens);
  prepared.worker.set_min_tokens(std::min(least, max_tokens));
  prepared.accepted.set_max_tokens(max_tokens);
  if (stopping.has_max_time_ms()) prepared.max_time_ms = stopping.max_time_ms();
  return absl::OkStatus();
}

absl::Status OutsideVocabulary(absl::string_view field, int32_t id,
                               int64_t vocab_size) {
  return BadField(field,
                  absl::StrCat("holds ", id, "; must be 0..", vocab_size - 1));
}

absl::Status CheckIds(absl::string_view field,
                      const google::protobuf::RepeatedField<int32_t>& ids,
                      int64_t vocab_size) {
  for (const int32_t id : ids)
    if (id < 0 || id >= vocab_size)
      return OutsideVocabulary(field, id, vocab_size);
  return absl::OkStatus();
}

template <typename Request>
absl::Status CheckAllIds(const Request& request, int64_t vocab_size) {
  const v1::Sampling& sampling = request.sampling();
  RETURN_IF_ERROR(
      CheckIds("stopping.stop_ids", request.stopping().stop_ids(), vocab_size));
  RETURN_IF_ERROR(
      CheckIds("sampling.allowed_ids", sampling.allowed_ids(), vocab_size));
  RETURN_IF_ERROR(
      CheckIds("sampling.banned_ids", sampling.banned_ids(), vocab_size));
  // A map has no order of its own; the lowest id is the one to name.
  std::set<int32_t> biased;
  for (const auto& [id, bias] : sampling.logit_bias()) biased.insert(id);
  if (biased.empty()) return absl::OkStatus();
  for (const int32_t id : {*biased.begin(), *biased.rbegin()})
    if (id < 0 || id >= vocab_size)
      return OutsideVocabulary("sampling.logit_bias", id, vocab_size);
  return absl::OkStatus();
}

// Something must be left to draw at every step, also before min_tokens. Of ids
// within the vocabulary.
absl::Status CheckDrawable(const v1::WorkerGenerateRequest& worker,
                           int64_t vocab_size) {
  const bool allows_all = worker.allowed_ids().empty();
  if (allows_all &&
      worker.banned_ids_size() + worker.stop_ids_size() < vocab_size)
    return absl::OkStatus();
  std::vector<bool> open(vocab_size, allows_all);
  for (const int32_t id : worker.allowed_ids()) open[id] = true;
  for (const int32_t id : worker.banned_ids()) open[id] = false;
  if (worker.min_tokens() > 0)
    for (const int32_t id : worker.stop_ids()) open[id] = false;
  if (std::find(open.begin(), open.end(), true) != open.end())
    return absl::OkStatus();
  return BadField(
      allows_all ? "sampling.banned_ids" : "sampling.allowed_ids",
      absl::StrCat("leaves 0 ids to draw, beside ",
                   allows_all ? "" : "sampling.banned_ids and ",
                   "the stop ids before stopping.min_tokens; must leave at "
                   "least 1"));
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
  prepared.worker.set_prompt_logprobs(output.prompt_logprobs() ||
                                      prepared.worker.max_tokens() == 0);
}

void SetSampling(const v1::Sampling& sampling,
                 v1::WorkerGenerateRequest& worker) {
  worker.set_temperature(sampling.temperature());
  worker.set_top_p(sampling.top_p());
  worker.set_top_k(sampling.top_k());
  worker.set_min_p(sampling.min_p());
  worker.set_seed(sampling.seed());
  worker.set_presence_penalty(sampling.presence_penalty());
  worker.set_frequency_penalty(sampling.frequency_penalty());
  worker.set_repetition_penalty(sampling.repetition_penalty());
  worker.set_repetition_window(sampling.repetition_window());
  *worker.mutable_logit_bias() = sampling.logit_bias();
  *worker.mutable_allowed_ids() = sampling.allowed_ids();
  *worker.mutable_banned_ids() = sampling.banned_ids();
}

// Whose a request is, for a worker that is to tell users apart and no more:
// every gateway makes the same of one name. Empty for nobody.
std::string KeyOf(const std::string& user) {
  if (user.empty()) return "";
  std::array<char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  CHECK(EVP_Digest(user.data(), user.size(),
                   reinterpret_cast<unsigned char*>(digest.data()), &size,
                   EVP_sha256(), nullptr) == 1);
  constexpr size_t kKeyBytes = 16;
  return absl::BytesToHexString({digest.data(), kKeyBytes});
}

// What the worker need know of who asks, and of what it may share.
template <typename Request>
void SetOwner(const Request& request, v1::WorkerGenerateRequest& worker) {
  worker.set_key(KeyOf(request.user()));
  worker.set_cache_salt(request.cache_salt());
  worker.set_cache_bypass(request.cache_bypass());
  worker.set_priority(request.priority());
}

void SetAccepted(const ModelText& text, const v1::WorkerStatus& leader,
                 const v1::Sampling& sampling, PreparedRequest& prepared) {
  v1::Accepted& accepted = prepared.accepted;
  accepted.set_model(text.name);
  accepted.set_model_digest(leader.model_digest());
  accepted.set_numerics_id(leader.numerics_id());
  accepted.set_epoch(leader.epoch());
  accepted.set_prompt_tokens(prepared.worker.prompt_ids_size());
  *accepted.mutable_sampling() = sampling;
}

// Everything that does not depend on where the prompt came from.
template <typename Request>
absl::StatusOr<PreparedRequest> Finish(const Request& request,
                                       const std::vector<int32_t>& prompt_ids,
                                       const ModelText& text,
                                       const v1::WorkerStatus& leader) {
  const v1::ModelFacts& model = leader.model();
  const auto prompt_tokens = static_cast<int64_t>(prompt_ids.size());
  PreparedRequest prepared;
  v1::WorkerGenerateRequest& worker = prepared.worker;
  RETURN_IF_ERROR(CheckPromptLength(prompt_tokens, leader.max_model_len()));
  RETURN_IF_ERROR(CheckAllIds(request, model.vocab_size()));
  RETURN_IF_ERROR(SetLengths(request.stopping(), request.output(),
                             prompt_tokens, leader.max_model_len(), prepared));
  SetStops(request.stopping(), model, prepared);
  SetOutput(request.output(), text.tokenizer != nullptr, prepared);
  if (text.tokenizer == nullptr && request.output().text())
    return NoTokenizer("output.text");
  if (text.tokenizer == nullptr && !prepared.stop_strings.empty())
    return NoTokenizer("stopping.stop_strings");
  const v1::Sampling sampling = Effective(request.sampling(), model);
  SetSampling(sampling, worker);
  RETURN_IF_ERROR(CheckDrawable(worker, model.vocab_size()));
  SetOwner(request, worker);
  prepared.n = request.has_n() ? request.n() : 1;
  worker.mutable_prompt_ids()->Add(prompt_ids.begin(), prompt_ids.end());
  for (const int32_t position :
       FindAnchors(prompt_ids, text.tokenizer, prepared.n))
    worker.add_anchors(position);
  worker.set_epoch(leader.epoch());
  const std::string drawn =
      absl::StrCat(absl::Hex(RandomNumber(), absl::kZeroPad16));
  worker.set_request_id(drawn);
  prepared.request_id =
      request.request_id().empty() ? drawn : request.request_id();
  prepared.tag = request.tag();
  prepared.user = request.user();
  SetAccepted(text, leader, sampling, prepared);
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
  ASSIGN_OR_RETURN(PreparedRequest prepared,
                   Finish(request, ids, text, leader));
  if (prepared.echo && prepared.wants_text)
    prepared.prompt_text =
        request.prompt_case() == v1::GenerateRequest::kText
            ? request.text()
            : text.tokenizer->Decode(ids, /*skip_special=*/false);
  return prepared;
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
                   Finish(request, *ids, text, leader));
  prepared.starts_in_reasoning = PromptOpensReasoning(*prompt);
  if (prepared.echo && prepared.wants_text)
    prepared.prompt_text = *std::move(prompt);
  return prepared;
}

}  // namespace phalanx
