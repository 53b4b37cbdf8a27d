#include "gateway/cli/flags.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace phalanx {

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
  verb.add_option("--max-tokens", flags.max_tokens,
                  "Longest answer; the rest of the context if not given")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            int64_t value = 0;
            if (absl::SimpleAtoi(text, &value) && value >= 1) return "";
            return absl::StrCat("value ", text,
                                " is not in [1, the service's "
                                "max_model_len]");
          },
          "in [1, the service's max_model_len]"));
  verb.add_option("--temperature", flags.temperature,
                  "0 always takes the most likely token")
      ->check(NumberIn(0, 100));
  verb.add_option("--seed", flags.seed,
                  "The same seed gives the same answer; drawn if not given");
}

void FillSampling(const SamplingFlags& flags, v1::Sampling& sampling,
                  v1::Stopping& stopping) {
  if (flags.max_tokens) stopping.set_max_tokens(*flags.max_tokens);
  if (flags.temperature)
    sampling.set_temperature(static_cast<float>(*flags.temperature));
  if (flags.seed) sampling.set_seed(*flags.seed);
}

}  // namespace phalanx
