#include "worker/scheduler/limits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/reason.h"
#include "common/status.h"
#include "common/units.h"

namespace phalanx {
namespace {

absl::Status BadField(absl::string_view field, absl::string_view value,
                      absl::string_view rule) {
  return ReasonedError(absl::StatusCode::kInvalidArgument, "BAD_FIELD",
                       absl::StrCat(field, " is ", value, "; must be ", rule),
                       {{"field", std::string(field)}});
}

absl::Status CheckIds(absl::string_view field, std::span<const int32_t> ids,
                      int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return ReasonedError(absl::StatusCode::kInvalidArgument, "BAD_FIELD",
                         absl::StrCat(field, "[", i, "] is ", ids[i],
                                      "; must be 0..", vocab_size - 1),
                         {{"field", std::string(field)}});
  }
  return absl::OkStatus();
}

// Every comparison is written so that NaN fails it.
absl::Status CheckSampling(const Sampling& sampling) {
  if (!(sampling.temperature >= 0 && std::isfinite(sampling.temperature)))
    return BadField("temperature", absl::StrCat(sampling.temperature),
                    "finite and at least 0");
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    return BadField("top_p", absl::StrCat(sampling.top_p),
                    "above 0 and at most 1");
  if (sampling.top_k < 0)
    return BadField("top_k", absl::StrCat(sampling.top_k), "at least 0");
  if (!(sampling.min_p >= 0 && sampling.min_p <= 1))
    return BadField("min_p", absl::StrCat(sampling.min_p), "0..1");
  if (sampling.choice_index < 0)
    return BadField("choice_index", absl::StrCat(sampling.choice_index),
                    "at least 0");
  return absl::OkStatus();
}

absl::Status CheckLengths(const Request& request,
                          const SchedulerLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.prompt_ids.size());
  const auto emitted = static_cast<int64_t>(request.emitted_ids.size());
  if (prompt == 0)
    return ReasonedError(absl::StatusCode::kInvalidArgument, "PROMPT_EMPTY",
                         "prompt_ids is empty; must hold at least one token");
  if (prompt >= limits.max_model_len)
    return ReasonedError(
        absl::StatusCode::kInvalidArgument, "PROMPT_TOO_LONG",
        absl::StrCat("prompt_ids has ", prompt, " tokens; must be 1..",
                     limits.max_model_len - 1),
        {{"limit", absl::StrCat(limits.max_model_len - 1)},
         {"actual", absl::StrCat(prompt)}});
  if (request.max_tokens < 1 || request.max_tokens > limits.max_model_len)
    return BadField("max_tokens", absl::StrCat(request.max_tokens),
                    absl::StrCat("1..", limits.max_model_len));
  const int64_t most_emitted = MaxTotalTokens(request, limits) - prompt;
  if (emitted > most_emitted)
    return BadField("emitted_ids", absl::StrCat(emitted, " tokens long"),
                    absl::StrCat("0..", most_emitted));
  if (const int64_t blocks =
          CeilDivide(MaxTotalTokens(request, limits), limits.block_tokens);
      blocks > limits.kv_blocks)
    return ReasonedError(
        absl::StatusCode::kInvalidArgument, "NEVER_FITS",
        absl::StrCat("prompt and max_tokens need ", blocks,
                     " KV blocks; there are ", limits.kv_blocks),
        {{"needs", absl::StrCat(blocks)},
         {"capacity", absl::StrCat(limits.kv_blocks)}});
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateLimits(const SchedulerLimits& limits) {
  // What an int32 index can name: a row, a block, a slot, a token id.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const std::pair<absl::string_view, int64_t> fields[] = {
      {"max_running", limits.max_running},
      {"max_waiting", limits.max_waiting},
      {"max_model_len", limits.max_model_len},
      {"prefill_chunk", limits.prefill_chunk},
      {"step_tokens", limits.step_tokens},
      {"kv_blocks", limits.kv_blocks},
      {"state_slots", limits.state_slots},
      {"vocab_size", limits.vocab_size},
      {"block_tokens", limits.block_tokens},
  };
  for (const auto& [field, value] : fields) {
    if (value < 1 || value > kMost)
      return BadField(field, absl::StrCat(value), absl::StrCat("1..", kMost));
  }
  if (limits.step_tokens < limits.max_running)
    return BadField("step_tokens", absl::StrCat(limits.step_tokens),
                    absl::StrCat("at least max_running, ", limits.max_running));
  if (limits.state_slots < limits.max_running)
    return BadField("state_slots", absl::StrCat(limits.state_slots),
                    absl::StrCat("at least max_running, ", limits.max_running));
  return absl::OkStatus();
}

StepPlanLimits PlanLimits(const SchedulerLimits& limits) {
  return {.max_sequences = limits.max_running,
          .max_tokens = limits.step_tokens,
          .max_logit_rows = std::max(limits.logit_rows, limits.max_running),
          .max_model_len = limits.max_model_len,
          .vocab_size = limits.vocab_size,
          .state_slots = limits.state_slots,
          .kv_blocks = limits.kv_blocks,
          .block_tokens = limits.block_tokens};
}

int64_t MaxTotalTokens(const Request& request, const SchedulerLimits& limits) {
  // In this order, so that no max_tokens overflows.
  const auto prompt = static_cast<int64_t>(request.prompt_ids.size());
  return prompt + std::min(request.max_tokens, limits.max_model_len - prompt);
}

absl::Status ValidateRequest(const Request& request,
                             const SchedulerLimits& limits) {
  const auto id_bytes = static_cast<int64_t>(request.id.size());
  if (id_bytes < 1 || id_bytes > kMaxRequestIdBytes)
    return BadField("request_id", absl::StrCat(id_bytes, " bytes long"),
                    absl::StrCat("1..", kMaxRequestIdBytes));
  RETURN_IF_ERROR(CheckLengths(request, limits));
  RETURN_IF_ERROR(
      CheckIds("prompt_ids", request.prompt_ids, limits.vocab_size));
  RETURN_IF_ERROR(
      CheckIds("emitted_ids", request.emitted_ids, limits.vocab_size));
  const auto stop_ids = static_cast<int64_t>(request.stop_ids.size());
  if (stop_ids > kMaxStopIds)
    return BadField("stop_ids", absl::StrCat(stop_ids, " ids long"),
                    absl::StrCat("0..", kMaxStopIds));
  RETURN_IF_ERROR(CheckIds("stop_ids", request.stop_ids, limits.vocab_size));
  RETURN_IF_ERROR(CheckSampling(request.sampling));
  if (request.top_n < 0 || request.top_n > kMaxTopLogprobs)
    return BadField("top_n", absl::StrCat(request.top_n),
                    absl::StrCat("0..", kMaxTopLogprobs));
  if (request.priority < 0 || request.priority > kHighestPriority)
    return BadField("priority", absl::StrCat(request.priority),
                    absl::StrCat("0..", kHighestPriority));
  return absl::OkStatus();
}

}  // namespace phalanx
