#include "gateway/cli/flags.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace phalanx {
namespace {

constexpr int kMaxChoices = 16;
constexpr double kMaxSeconds = 86400;
constexpr double kMaxBias = 100;
constexpr int32_t kMost = std::numeric_limits<int32_t>::max();

// inference.proto's, from 1 on.
const std::vector<std::string> kPriorities = {"lowest", "low", "normal", "high",
                                              "highest"};

// "ID:VALUE"; nothing where it is something else.
std::optional<std::pair<int32_t, float>> ParseBias(const std::string& text) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  int32_t id = 0;
  double value = 0;
  if (!absl::SimpleAtoi(parts.first, &id) || id < 0 ||
      !absl::SimpleAtod(parts.second, &value) || !std::isfinite(value) ||
      std::abs(value) > kMaxBias)
    return std::nullopt;
  return std::pair(id, static_cast<float>(value));
}

void AddDrawFlags(CLI::App& verb, SamplingFlags& flags) {
  verb.add_option("--temperature", flags.temperature,
                  "0 always takes the most likely token")
      ->check(NumberIn(0, 100));
  verb.add_option("--top-k", flags.top_k, "Draw from the K most likely; 0: all")
      ->check(CLI::Range(0, kMost));
  verb.add_option("--top-p", flags.top_p,
                  "Draw from the most likely that make up this share")
      ->check(NumberIn(0, 1, /*above_low=*/true));
  verb.add_option("--min-p", flags.min_p,
                  "Drop what is less likely than this share of the likeliest")
      ->check(NumberIn(0, 1));
  verb.add_option("--seed", flags.seed,
                  "The same seed gives the same answer; drawn if not given");
}

void AddPenaltyFlags(CLI::App& verb, SamplingFlags& flags) {
  verb.add_option("--presence-penalty", flags.presence_penalty,
                  "Taken from each token that the answer holds already")
      ->check(NumberIn(-2, 2));
  verb.add_option("--frequency-penalty", flags.frequency_penalty,
                  "The same, as often as it holds it")
      ->check(NumberIn(-2, 2));
  verb.add_option("--repetition-penalty", flags.repetition_penalty,
                  "Makes tokens of prompt and answer less likely; 1: off")
      ->check(NumberIn(0, 10, /*above_low=*/true));
  verb.add_option("--repetition-window", flags.repetition_window,
                  "So many of the last tokens count for it; 0: all")
      ->check(CLI::Range(0, kMost));
}

void AddMaskFlags(CLI::App& verb, SamplingFlags& flags) {
  verb.add_option("--logit-bias", flags.logit_bias,
                  "ID:VALUE, comma-separated: added to the logit of a token")
      ->type_name("BIAS")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            if (ParseBias(text)) return "";
            return absl::StrCat("value ", text,
                                " is no ID:VALUE with a token id and a value "
                                "in [-100, 100]");
          },
          "in [-100, 100]"));
  verb.add_option("--allowed-ids", flags.allowed_ids,
                  "No other token is drawn, comma-separated")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0, kMost));
  verb.add_option("--banned-ids", flags.banned_ids,
                  "None of these is drawn, comma-separated")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0, kMost));
}

void AddStopFlags(CLI::App& verb, SamplingFlags& flags) {
  verb.add_option("--max-tokens", flags.max_tokens,
                  "Longest answer; the rest of the context if not given")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            int64_t value = 0;
            if (absl::SimpleAtoi(text, &value) && value >= 0) return "";
            return absl::StrCat("value ", text,
                                " is not in [0, the service's max_model_len]");
          },
          "in [0, the service's max_model_len]"));
  verb.add_option("--min-tokens", flags.min_tokens,
                  "The answer does not end before it has so many")
      ->check(CLI::Range(0, kMost));
  verb.add_option("--max-time", flags.max_time,
                  "The answer ends after so many seconds")
      ->type_name("SECONDS")
      ->check(NumberIn(0, kMaxSeconds, /*above_low=*/true));
  verb.add_option("--stop", flags.stop, "Text that ends the answer; repeatable")
      ->allow_extra_args(false);
  verb.add_flag("--ignore-eos", flags.ignore_eos,
                "The model's own end does not end the answer");
}

void AddServiceFlags(CLI::App& verb, SamplingFlags& flags) {
  verb.add_option("-n,--choices", flags.choices,
                  "So many answers to one prompt, one after another; -n for "
                  "short")
      ->check(CLI::Range(1, kMaxChoices));
  verb.add_option("--priority", flags.priority,
                  "Who goes first where the service is full")
      ->check(CLI::IsMember(kPriorities));
  verb.add_option("--salt", flags.salt,
                  "What was computed is shared only among equal ones");
  verb.add_flag("--bypass-cache", flags.bypass_cache,
                "Share nothing that was computed");
}

}  // namespace

CLI::Validator NumberIn(double low, double high, bool above_low) {
  const std::string range =
      absl::StrCat(above_low ? "(" : "[", low, ", ", high, "]");
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && std::isfinite(value) &&
            value >= low && value <= high && !(above_low && value == low))
          return "";
        return absl::StrCat("value ", text, " is not in ", range);
      },
      absl::StrCat("in ", range));
}

void AddSamplingFlags(CLI::App& verb, SamplingFlags& flags) {
  verb.add_option("--address", flags.address,
                  "The service, HOST:PORT; that of the last `phalanx serve` if "
                  "not given");
  AddDrawFlags(verb, flags);
  AddPenaltyFlags(verb, flags);
  AddMaskFlags(verb, flags);
  AddStopFlags(verb, flags);
  AddServiceFlags(verb, flags);
}

void FillSampling(const SamplingFlags& flags, v1::Sampling& sampling) {
  const auto number = [](double value) { return static_cast<float>(value); };
  if (flags.temperature) sampling.set_temperature(number(*flags.temperature));
  if (flags.top_k) sampling.set_top_k(*flags.top_k);
  if (flags.top_p) sampling.set_top_p(number(*flags.top_p));
  if (flags.min_p) sampling.set_min_p(number(*flags.min_p));
  if (flags.seed) sampling.set_seed(*flags.seed);
  if (flags.presence_penalty)
    sampling.set_presence_penalty(number(*flags.presence_penalty));
  if (flags.frequency_penalty)
    sampling.set_frequency_penalty(number(*flags.frequency_penalty));
  if (flags.repetition_penalty)
    sampling.set_repetition_penalty(number(*flags.repetition_penalty));
  if (flags.repetition_window)
    sampling.set_repetition_window(*flags.repetition_window);
  for (const std::string& text : flags.logit_bias) {
    const auto bias = ParseBias(text);
    if (bias) (*sampling.mutable_logit_bias())[bias->first] = bias->second;
  }
  sampling.mutable_allowed_ids()->Add(flags.allowed_ids.begin(),
                                      flags.allowed_ids.end());
  sampling.mutable_banned_ids()->Add(flags.banned_ids.begin(),
                                     flags.banned_ids.end());
}

void FillStopping(const SamplingFlags& flags, v1::Stopping& stopping) {
  if (flags.max_tokens) stopping.set_max_tokens(*flags.max_tokens);
  if (flags.min_tokens) stopping.set_min_tokens(*flags.min_tokens);
  if (flags.max_time)
    stopping.set_max_time_ms(
        static_cast<int64_t>(std::ceil(*flags.max_time * 1000)));
  for (const std::string& stop : flags.stop) stopping.add_stop_strings(stop);
  if (flags.ignore_eos) stopping.set_ignore_eos(true);
}

v1::Priority PriorityOf(const std::string& name) {
  const auto found = std::find(kPriorities.begin(), kPriorities.end(), name);
  return static_cast<v1::Priority>(found - kPriorities.begin() + 1);
}

}  // namespace phalanx
