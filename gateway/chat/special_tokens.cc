#include "gateway/chat/special_tokens.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "nlohmann/json.hpp"

namespace phalanx {
namespace {

// Empty for null.
absl::StatusOr<std::string> TokenText(const nlohmann::json& token,
                                      absl::string_view key) {
  if (token.is_null()) return "";
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object()) {
    const auto content = token.find("content");
    if (content != token.end() && content->is_string())
      return content->get<std::string>();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key,
                   " is no token; must be a string, an object with a string "
                   "\"content\", or null"));
}

}  // namespace

absl::StatusOr<SpecialTokens> ParseSpecialTokens(absl::string_view text,
                                                 absl::string_view path) {
  const nlohmann::json config =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds no JSON object"));
  SpecialTokens tokens;
  for (const absl::string_view name : kSpecialTokenNames) {
    const auto entry = config.find(std::string(name));
    if (entry == config.end()) continue;
    ASSIGN_OR_RETURN(std::string token,
                     TokenText(*entry, absl::StrCat(path, ": ", name)));
    if (!token.empty()) tokens.named[std::string(name)] = std::move(token);
  }
  const auto entry = config.find(kAdditionalSpecialTokens);
  if (entry == config.end() || entry->is_null()) return tokens;
  const std::string key = absl::StrCat(path, ": ", kAdditionalSpecialTokens);
  if (!entry->is_array())
    return absl::InvalidArgumentError(absl::StrCat(key, " is no array"));
  for (const nlohmann::json& one : *entry) {
    ASSIGN_OR_RETURN(std::string token, TokenText(one, key));
    tokens.additional.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace phalanx
