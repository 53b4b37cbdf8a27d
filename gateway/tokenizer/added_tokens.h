#ifndef PHALANX_GATEWAY_TOKENIZER_ADDED_TOKENS_H_
#define PHALANX_GATEWAY_TOKENIZER_ADDED_TOKENS_H_

// Finds added tokens in raw text.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "gateway/tokenizer/tokenizer_file.h"

namespace phalanx {

// A trie of the tokens' bytes. Made by Tokenizer at load and dies with it.
// Const after construction: any thread.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(const std::vector<AddedToken>& tokens);

  struct Found {
    size_t begin = 0;  // Bytes into the text.
    size_t size = 0;
    int32_t id = 0;
  };

  // The leftmost token at or after byte `from`, and of those that start there
  // the longest; nothing if there is none. Time: the distance, and at most
  // kMaxAddedTokenBytes for each byte on which a token may start.
  std::optional<Found> FindFrom(absl::string_view text, size_t from) const;

  // The id of the token that is exactly `content`.
  std::optional<int32_t> IdOf(absl::string_view content) const;

 private:
  std::optional<Found> LongestAt(absl::string_view text, size_t begin) const;

  std::array<bool, 256> starts_{};  // Bytes on which a token starts.
  absl::flat_hash_map<uint64_t, uint32_t> next_;  // By node << 8 | byte.
  std::vector<int32_t> id_;  // By node; -1 where no token ends.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_ADDED_TOKENS_H_
