#include "worker/scheduler/limits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

absl::Status CheckCount(absl::string_view field, size_t count, int64_t most) {
  if (static_cast<int64_t>(count) <= most) return absl::OkStatus();
  return BadField(field, absl::StrCat(count, " ids long"),
                  absl::StrCat("0..", most));
}

absl::Status CheckBytes(absl::string_view field, const std::string& text) {
  if (static_cast<int64_t>(text.size()) <= kMaxKeyBytes)
    return absl::OkStatus();
  return BadField(field, absl::StrCat(text.size(), " bytes long"),
                  absl::StrCat("0..", kMaxKeyBytes));
}

absl::Status CheckAscending(absl::string_view field,
                            std::span<const int32_t> ids) {
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] > ids[i - 1]) continue;
    return ReasonedError(
        absl::StatusCode::kInvalidArgument, "BAD_FIELD",
        absl::StrCat(field, "[", i, "] is ", ids[i],
                     "; must be above the one before, ", ids[i - 1]),
        {{"field", std::string(field)}});
  }
  return absl::OkStatus();
}

// At most `most` ids of the vocabulary, ascending.
absl::Status CheckIdSet(absl::string_view field, std::span<const int32_t> ids,
                        int64_t most, int64_t vocab_size) {
  RETURN_IF_ERROR(CheckCount(field, ids.size(), most));
  RETURN_IF_ERROR(CheckIds(field, ids, vocab_size));
  return CheckAscending(field, ids);
}

// Every comparison of floats here is written so that NaN fails it.
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
  if (!(sampling.presence >= -2 && sampling.presence <= 2))
    return BadField("presence_penalty", absl::StrCat(sampling.presence),
                    "-2..2");
  if (!(sampling.frequency >= -2 && sampling.frequency <= 2))
    return BadField("frequency_penalty", absl::StrCat(sampling.frequency),
                    "-2..2");
  if (!(sampling.repetition > 0 && sampling.repetition <= 10))
    return BadField("repetition_penalty", absl::StrCat(sampling.repetition),
                    "above 0 and at most 10");
  if (sampling.repetition_window < 0)
    return BadField("repetition_window",
                    absl::StrCat(sampling.repetition_window), "at least 0");
  return absl::OkStatus();
}

absl::Status CheckBias(const Sampling& sampling, int64_t vocab_size) {
  std::vector<int32_t> ids;
  for (const auto& [id, bias] : sampling.logit_bias) {
    if (!(bias >= -kMaxBias && bias <= kMaxBias))
      return BadField("logit_bias", absl::StrCat(bias, " for id ", id),
                      absl::StrCat(-kMaxBias, "..", kMaxBias));
    ids.push_back(id);
  }
  return CheckIdSet("logit_bias", ids, kMaxBiasedIds, vocab_size);
}

// Ids that may be drawn at first: at least one must be.
absl::Status CheckSomethingIsAllowed(const Request& request,
                                     int64_t vocab_size) {
  std::vector<int32_t> never = request.sampling.banned_ids;
  if (request.min_tokens > 0)
    never.insert(never.end(), request.stop_ids.begin(), request.stop_ids.end());
  std::sort(never.begin(), never.end());
  never.erase(std::unique(never.begin(), never.end()), never.end());
  const std::vector<int32_t>& allowed = request.sampling.allowed_ids;
  const bool all_gone = allowed.empty()
                            ? static_cast<int64_t>(never.size()) >= vocab_size
                            : std::includes(never.begin(), never.end(),
                                            allowed.begin(), allowed.end());
  if (!all_gone) return absl::OkStatus();
  return BadField(allowed.empty() ? "banned_ids" : "allowed_ids",
                  "such that no id is left to draw",
                  "such that one is, not banned, and no stop id before "
                  "min_tokens");
}

absl::Status CheckMasks(const Request& request, int64_t vocab_size) {
  const Sampling& sampling = request.sampling;
  RETURN_IF_ERROR(CheckCount("stop_ids", request.stop_ids.size(), kMaxStopIds));
  RETURN_IF_ERROR(CheckIds("stop_ids", request.stop_ids, vocab_size));
  RETURN_IF_ERROR(CheckBias(sampling, vocab_size));
  RETURN_IF_ERROR(CheckIdSet("allowed_ids", sampling.allowed_ids, kMaxMaskedIds,
                             vocab_size));
  RETURN_IF_ERROR(
      CheckIdSet("banned_ids", sampling.banned_ids, kMaxMaskedIds, vocab_size));
  return CheckSomethingIsAllowed(request, vocab_size);
}

absl::Status CheckAnchors(const Request& request) {
  const auto prompt = static_cast<int64_t>(request.prompt_ids.size());
  const std::vector<int32_t>& anchors = request.anchors;
  if (static_cast<int64_t>(anchors.size()) > kMaxAnchors)
    return BadField("anchors", absl::StrCat(anchors.size(), " long"),
                    absl::StrCat("0..", kMaxAnchors));
  RETURN_IF_ERROR(CheckAscending("anchors", anchors));
  for (const int32_t anchor : anchors) {
    if (anchor < 1 || anchor > prompt)
      return BadField("anchors", absl::StrCat(anchor),
                      absl::StrCat("1..", prompt));
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(const Request& request) {
  for (const auto& [field, seconds] :
       {std::pair("timeout_seconds", request.timeout_seconds),
        std::pair("max_time_seconds", request.max_time_seconds)}) {
    if (!(seconds >= 0))
      return BadField(field, absl::StrCat(seconds), "at least 0");
  }
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
  const int64_t least = request.prompt_logprobs ? 0 : 1;
  if (request.max_tokens < least || request.max_tokens > limits.max_model_len)
    return BadField("max_tokens", absl::StrCat(request.max_tokens),
                    absl::StrCat(least, "..", limits.max_model_len));
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens)
    return BadField("min_tokens", absl::StrCat(request.min_tokens),
                    absl::StrCat("0..", request.max_tokens));
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

absl::Status CheckPatience(const SchedulerLimits& limits) {
  if (!(limits.ageing_seconds > 0 && std::isfinite(limits.ageing_seconds)))
    return BadField("ageing_seconds", absl::StrCat(limits.ageing_seconds),
                    "finite and above 0");
  if (!(limits.max_wait_seconds > 0))
    return BadField("max_wait_seconds", absl::StrCat(limits.max_wait_seconds),
                    "above 0");
  if (!(limits.park_seconds >= 0))
    return BadField("park_seconds", absl::StrCat(limits.park_seconds),
                    "at least 0");
  if (!(limits.slow_reader_seconds > 0))
    return BadField("slow_reader_seconds",
                    absl::StrCat(limits.slow_reader_seconds), "above 0");
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
      {"snapshot_tokens", limits.snapshot_tokens},
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
  if (limits.logit_rows != 0 &&
      (limits.logit_rows < limits.max_running || limits.logit_rows > kMost))
    return BadField("logit_rows", absl::StrCat(limits.logit_rows),
                    absl::StrCat("0 or ", limits.max_running, "..", kMost));
  return CheckPatience(limits);
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
  RETURN_IF_ERROR(CheckSampling(request.sampling));
  RETURN_IF_ERROR(CheckMasks(request, limits.vocab_size));
  RETURN_IF_ERROR(CheckAnchors(request));
  RETURN_IF_ERROR(CheckBytes("cache_salt", request.cache.salt));
  RETURN_IF_ERROR(CheckBytes("key", request.key));
  RETURN_IF_ERROR(CheckTimes(request));
  if (request.top_n < 0 || request.top_n > kMaxTopLogprobs)
    return BadField("top_n", absl::StrCat(request.top_n),
                    absl::StrCat("0..", kMaxTopLogprobs));
  if (request.priority < 0 || request.priority > kHighestPriority)
    return BadField("priority", absl::StrCat(request.priority),
                    absl::StrCat("0..", kHighestPriority));
  return absl::OkStatus();
}

}  // namespace phalanx
