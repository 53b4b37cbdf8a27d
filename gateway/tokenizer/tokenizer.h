#ifndef PHALANX_GATEWAY_TOKENIZER_TOKENIZER_H_
#define PHALANX_GATEWAY_TOKENIZER_TOKENIZER_H_

// Text -> token ids and back: added tokens are taken out of the raw text, the
// rest is brought into NFC, split by the pattern, and each piece encoded.
// (model_spec.md 6.1.)

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/tokenizer/added_tokens.h"
#include "gateway/tokenizer/bpe.h"
#include "gateway/tokenizer/pretokenizer.h"
#include "gateway/tokenizer/tokenizer_file.h"

namespace phalanx {

// The longest text that Encode takes: a million tokens of eight bytes. The
// worst of texts (one letter throughout) needs about 40 times its size while it
// is encoded.
inline constexpr size_t kMaxTextBytes = size_t{8} << 20;

// Made once per process by main, lives as long as the server. Const after Load:
// any thread, no locks, no cache that grows.
class Tokenizer {
 public:
  // From the tokenizer.json (and tokenizer_config.json) of a model's folder.
  // Errors as ReadTokenizerTables; NOT_FOUND means that the model has none.
  // Takes about half a second for 250,000 tokens.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const std::string& model_dir);

  // From tables that ReadTokenizerTables or ParseTokenizerTables made.
  // INVALID_ARGUMENT: the split pattern does not compile.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(
      TokenizerTables tables);

  // The ids of `text`, with nothing put before or after. With `match_added`,
  // added tokens that stand in the text become their ids; without, their
  // letters are encoded like any others, which is what text from strangers
  // needs. INVALID_ARGUMENT: invalid UTF-8 (with its byte), more than
  // kMaxTextBytes, a match limit of the pattern.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              bool match_added = true) const;

  // The text of `ids`, always valid UTF-8: bytes that are not become U+FFFD,
  // one per maximal invalid prefix. Ids that no token has give no text.
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;

  // The bytes of a token, perhaps part of a code point; for an added token its
  // content; empty for an id that no token has. Views this object.
  absl::string_view TokenBytes(int32_t id) const;

  // The id of the added token that is exactly `content`.
  std::optional<int32_t> AddedTokenId(absl::string_view content) const;

  // Whether `id` is an added token, and one that is left out when special
  // tokens are skipped. False for an id that no token has.
  bool is_added(int32_t id) const;
  bool is_special(int32_t id) const;

  // One more than the largest id that a token has. The model may have more
  // rows.
  int32_t vocab_size() const;

 private:
  enum class Kind : uint8_t { kOrdinary, kAdded, kSpecial };

  // What one call of Encode works with.
  struct Work {
    Bpe::Scratch scratch;
    std::string normalized;
    std::vector<int32_t> ids;
  };

  Tokenizer(TokenizerTables tables, std::unique_ptr<Pretokenizer> pretokenizer);
  Kind KindOf(int32_t id) const;
  absl::Status EncodeMatchingAdded(absl::string_view text, Work& work) const;
  absl::Status EncodePlain(absl::string_view text, Work& work) const;

  const bool nfc_;
  const AddedTokenFinder added_;
  const std::unique_ptr<Pretokenizer> pretokenizer_;
  std::vector<Kind> kind_;  // By id.
  const Bpe bpe_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_TOKENIZER_H_
