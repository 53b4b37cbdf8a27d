#include "gateway/api/request_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <initializer_list>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/reason.h"
#include "common/status.h"

namespace phalanx {
namespace {

constexpr int64_t kMaxIdBytes = 256;
constexpr int64_t kMaxSaltBytes = 256;
constexpr int kMaxChoices = 16;
constexpr int64_t kMaxStopStrings = 16;
constexpr int64_t kMaxStopStringBytes = 256;
constexpr int64_t kMaxStopIds = 64;
constexpr int64_t kMaxTopLogprobs = 20;
constexpr float kMaxTemperature = 100;
// As worker/scheduler/request.h, which the worker holds requests against.
constexpr float kMaxPenalty = 2;
constexpr float kMaxRepetition = 10;
constexpr int64_t kMaxBiasedIds = 1024;
constexpr float kMaxBias = 100;
constexpr int64_t kMaxMaskedIds = 65536;

// Fields of both requests that this build does not serve, by path.
constexpr std::initializer_list<const char*> kUnserved = {
    "sampling.typical_p",
    "adapter",
    "add_special_tokens",
    "detach_grace_ms",
    "json_schema",
    "regex",
    "ebnf",
    "reasoning.effort",
    "reasoning.max_tokens",
    "tool_choice"};

absl::Status FeatureOff(absl::string_view feature) {
  return ReasonedError(absl::StatusCode::kUnimplemented, "FEATURE_OFF",
                       absl::StrCat(feature,
                                    " is set; this build does not "
                                    "serve it"),
                       {{"feature", std::string(feature)}});
}

// Whether the field at `path` holds anything. A path whose head this message
// does not have is not set.
bool IsSet(const google::protobuf::Message& message, const std::string& path) {
  const size_t dot = path.find('.');
  const auto* field =
      message.GetDescriptor()->FindFieldByName(path.substr(0, dot));
  if (field == nullptr) return false;
  const auto* reflection = message.GetReflection();
  if (field->is_repeated()) return reflection->FieldSize(message, field) > 0;
  if (!reflection->HasField(message, field)) return false;
  if (dot == std::string::npos) return true;
  return IsSet(reflection->GetMessage(message, field), path.substr(dot + 1));
}

absl::Status CheckServed(const google::protobuf::Message& message) {
  for (const char* path : kUnserved)
    if (IsSet(message, path)) return FeatureOff(path);
  return absl::OkStatus();
}

// Every comparison is written so that NaN fails it.
absl::Status CheckFilters(const v1::Sampling& sampling) {
  if (sampling.has_temperature() &&
      !(sampling.temperature() >= 0 &&
        sampling.temperature() <= kMaxTemperature))
    return BadField("sampling.temperature",
                    absl::StrCat("is ", sampling.temperature(), "; must be 0..",
                                 kMaxTemperature));
  if (sampling.has_top_p() && !(sampling.top_p() > 0 && sampling.top_p() <= 1))
    return BadField("sampling.top_p", absl::StrCat("is ", sampling.top_p(),
                                                   "; must be in (0, 1]"));
  if (sampling.has_top_k() && sampling.top_k() < 0)
    return BadField("sampling.top_k",
                    absl::StrCat("is ", sampling.top_k(), "; must be >= 0"));
  if (sampling.has_min_p() && !(sampling.min_p() >= 0 && sampling.min_p() <= 1))
    return BadField("sampling.min_p", absl::StrCat("is ", sampling.min_p(),
                                                   "; must be in [0, 1]"));
  return absl::OkStatus();
}

absl::Status CheckPenalties(const v1::Sampling& sampling) {
  for (const auto& [field, penalty] :
       {std::pair("sampling.presence_penalty", sampling.presence_penalty()),
        std::pair("sampling.frequency_penalty",
                  sampling.frequency_penalty())}) {
    if (penalty >= -kMaxPenalty && penalty <= kMaxPenalty) continue;
    return BadField(field, absl::StrCat("is ", penalty, "; must be in [",
                                        -kMaxPenalty, ", ", kMaxPenalty, "]"));
  }
  const float repetition = sampling.repetition_penalty();
  if (sampling.has_repetition_penalty() &&
      !(repetition > 0 && repetition <= kMaxRepetition))
    return BadField("sampling.repetition_penalty",
                    absl::StrCat("is ", repetition, "; must be in (0, ",
                                 kMaxRepetition, "]"));
  if (sampling.repetition_window() < 0)
    return BadField(
        "sampling.repetition_window",
        absl::StrCat("is ", sampling.repetition_window(), "; must be >= 0"));
  return absl::OkStatus();
}

absl::Status CheckLength(absl::string_view field, int64_t size, int64_t most) {
  if (size <= most) return absl::OkStatus();
  return BadField(field,
                  absl::StrCat("has ", size, " entries; at most ", most));
}

absl::Status CheckMasks(const v1::Sampling& sampling) {
  RETURN_IF_ERROR(CheckLength("sampling.logit_bias", sampling.logit_bias_size(),
                              kMaxBiasedIds));
  RETURN_IF_ERROR(CheckLength("sampling.allowed_ids",
                              sampling.allowed_ids_size(), kMaxMaskedIds));
  RETURN_IF_ERROR(CheckLength("sampling.banned_ids", sampling.banned_ids_size(),
                              kMaxMaskedIds));
  // A map has no order of its own; the lowest id is the one to name.
  const std::map<int32_t, float> biases(sampling.logit_bias().begin(),
                                        sampling.logit_bias().end());
  for (const auto& [id, bias] : biases)
    if (!(bias >= -kMaxBias && bias <= kMaxBias))
      return BadField("sampling.logit_bias",
                      absl::StrCat("of ", id, " is ", bias, "; must be in [",
                                   -kMaxBias, ", ", kMaxBias, "]"));
  return absl::OkStatus();
}

absl::Status CheckStopping(const v1::Stopping& stopping) {
  if (stopping.has_max_time_ms() && stopping.max_time_ms() < 1)
    return BadField(
        "stopping.max_time_ms",
        absl::StrCat("is ", stopping.max_time_ms(), "; must be >= 1"));
  RETURN_IF_ERROR(CheckLength("stopping.stop_strings",
                              stopping.stop_strings_size(), kMaxStopStrings));
  for (const std::string& stop : stopping.stop_strings()) {
    if (stop.empty() || static_cast<int64_t>(stop.size()) > kMaxStopStringBytes)
      return BadField("stopping.stop_strings",
                      absl::StrCat("has an entry of ", stop.size(),
                                   " bytes; must be 1..", kMaxStopStringBytes));
  }
  return CheckLength("stopping.stop_ids", stopping.stop_ids_size(),
                     kMaxStopIds);
}

absl::Status CheckBytes(absl::string_view field, absl::string_view text,
                        int64_t most) {
  const auto bytes = static_cast<int64_t>(text.size());
  if (bytes <= most) return absl::OkStatus();
  return BadField(field, absl::StrCat("has ", bytes, " bytes; at most ", most));
}

// What both requests have.
template <typename Request>
absl::Status CheckCommon(const Request& request) {
  RETURN_IF_ERROR(CheckServed(request));
  RETURN_IF_ERROR(CheckBytes("request_id", request.request_id(), kMaxIdBytes));
  RETURN_IF_ERROR(CheckBytes("tag", request.tag(), kMaxIdBytes));
  RETURN_IF_ERROR(
      CheckBytes("cache_salt", request.cache_salt(), kMaxSaltBytes));
  if (request.has_n() && (request.n() < 1 || request.n() > kMaxChoices))
    return BadField(
        "n", absl::StrCat("is ", request.n(), "; must be 1..", kMaxChoices));
  if (request.has_priority() && !v1::Priority_IsValid(request.priority()))
    return BadField("priority",
                    absl::StrCat("is ", static_cast<int>(request.priority()),
                                 "; must be 0..5"));
  const int32_t top_n = request.output().top_n();
  if (top_n < 0 || top_n > kMaxTopLogprobs)
    return BadField("output.top_n", absl::StrCat("is ", top_n, "; must be 0..",
                                                 kMaxTopLogprobs));
  RETURN_IF_ERROR(CheckFilters(request.sampling()));
  RETURN_IF_ERROR(CheckPenalties(request.sampling()));
  RETURN_IF_ERROR(CheckMasks(request.sampling()));
  return CheckStopping(request.stopping());
}

}  // namespace

absl::Status BadField(absl::string_view field, absl::string_view message) {
  return ReasonedError(absl::StatusCode::kInvalidArgument, "BAD_FIELD",
                       absl::StrCat(field, " ", message),
                       {{"field", std::string(field)}});
}

absl::Status CheckRequest(const v1::GenerateRequest& request) {
  RETURN_IF_ERROR(CheckCommon(request));
  if (request.prompt_case() == v1::GenerateRequest::PROMPT_NOT_SET)
    return ReasonedError(absl::StatusCode::kInvalidArgument, "PROMPT_EMPTY",
                         "neither text nor token_ids is set");
  return absl::OkStatus();
}

absl::Status CheckRequest(const v1::ChatRequest& request) {
  RETURN_IF_ERROR(CheckCommon(request));
  if (request.messages().empty())
    return BadField("messages", "is empty; must have at least one");
  for (int i = 0; i < request.messages_size(); ++i) {
    const v1::ChatMessage& message = request.messages(i);
    for (const v1::ContentPart& part : message.parts())
      if (part.type() != "text")
        return ReasonedError(
            absl::StatusCode::kUnimplemented, "FEATURE_OFF",
            absl::StrCat("messages[", i, "].parts has a part of type ",
                         part.type(),
                         "; vision input is not served: use parts of type "
                         "text, or content"),
            {{"feature",
              absl::StrCat("messages[", i, "].parts of type ", part.type())}});
    if (!message.content().empty() && !message.parts().empty())
      return BadField(absl::StrCat("messages[", i, "]"),
                      "has both content and parts; must have one of them");
  }
  return absl::OkStatus();
}

}  // namespace phalanx
