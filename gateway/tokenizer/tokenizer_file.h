#ifndef PHALANX_GATEWAY_TOKENIZER_TOKENIZER_FILE_H_
#define PHALANX_GATEWAY_TOKENIZER_TOKENIZER_FILE_H_

// tokenizer.json (and the added tokens of tokenizer_config.json) -> tables.
//
// Understood: byte-level BPE as the Qwen family has it (model_spec.md 6.1).
// Everything else is refused by the name of its key: a setting that was ignored
// would give wrong ids without a word.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phalanx {

// Bounds on what is read. The largest public file of the family has 248,077
// tokens, 20 MB and 1.0 million JSON values.
inline constexpr size_t kMaxTokenizerFileBytes = size_t{64} << 20;
inline constexpr size_t kMaxTokenizerJsonValues = size_t{2} << 20;
inline constexpr int kMaxTokenizerJsonDepth = 32;
inline constexpr int32_t kMaxTokenIds = 1 << 20;
inline constexpr size_t kMaxAddedTokens = 4096;
inline constexpr size_t kMaxAddedTokenBytes = 256;

// A token matched in raw text before anything else happens to it.
struct AddedToken {
  int32_t id = 0;
  std::string content;   // UTF-8, 1 to kMaxAddedTokenBytes bytes.
  bool special = false;  // Left out of text when special tokens are skipped.
};

// Tokens `left` `right` side by side become `result`.
struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
};

// What the files say, checked: ids are within token_bytes, every byte has a
// token of its own, merges name tokens and never repeat.
struct TokenizerTables {
  std::vector<std::string> token_bytes;  // By id; empty for an unused id.
  std::vector<Merge> merges;             // By rank: the first is applied first.
  std::vector<int32_t> byte_tokens;      // 256, by byte.
  std::vector<AddedToken> added;         // By ascending id.
  std::string split_pattern;             // A regular expression.
  bool nfc = false;                      // Text is brought into NFC first.
};

// Reads `model_dir`/tokenizer.json and, when it exists, tokenizer_config.json.
// NOT_FOUND: there is no tokenizer.json. INVALID_ARGUMENT: a setting that is
// not supported. DATA_LOSS: what is not a sound tokenizer file. Messages name
// the file, the key and the value. Any thread.
absl::StatusOr<TokenizerTables> ReadTokenizerTables(
    const std::string& model_dir);

// The texts of the two files, and the names by which messages call them.
struct TokenizerText {
  absl::string_view tokenizer_json;
  std::optional<absl::string_view> config_json;  // Nothing: there is none.
  std::string tokenizer_name = "tokenizer.json";
  std::string config_name = "tokenizer_config.json";
};

// The same from text. A token in both files takes its flags from
// tokenizer_config.json.
absl::StatusOr<TokenizerTables> ParseTokenizerTables(const TokenizerText& text);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_TOKENIZER_FILE_H_
