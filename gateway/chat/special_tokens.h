#ifndef PHALANX_GATEWAY_CHAT_SPECIAL_TOKENS_H_
#define PHALANX_GATEWAY_CHAT_SPECIAL_TOKENS_H_

#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// What tokenizer_config.json may name; templates see them under these names.
inline constexpr std::array<absl::string_view, 7> kSpecialTokenNames = {
    "bos_token", "eos_token", "unk_token", "sep_token",
    "pad_token", "cls_token", "mask_token"};
inline constexpr char kAdditionalSpecialTokens[] = "additional_special_tokens";

// The texts of a checkpoint's special tokens. One that it does not name, or
// names null or empty, is not there: a template sees it as undefined.
struct SpecialTokens {
  std::map<std::string, std::string> named;  // Of kSpecialTokenNames.
  std::vector<std::string> additional;       // In the file's order.
};

// Of the text of a tokenizer_config.json, which messages call `path`. A token
// is a string, or an object with a string "content". INVALID_ARGUMENT, with the
// key, otherwise.
absl::StatusOr<SpecialTokens> ParseSpecialTokens(absl::string_view text,
                                                 absl::string_view path);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CHAT_SPECIAL_TOKENS_H_
