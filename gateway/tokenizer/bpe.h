#ifndef PHALANX_GATEWAY_TOKENIZER_BPE_H_
#define PHALANX_GATEWAY_TOKENIZER_BPE_H_

// Byte-pair encoding of one piece of text (Sennrich, Haddow, Birch 2016,
// arXiv:1508.07909): of all neighbours that may merge, the pair of the lowest
// rank merges first, the leftmost of equals, until none is left.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "gateway/tokenizer/tokenizer_file.h"

namespace phalanx {

// Made by Tokenizer at load and dies with it. Const after construction: any
// thread. Views into its own tokens, so it never moves.
class Bpe {
 public:
  // Working memory of Encode, kept between pieces so that it is allocated once.
  // One per thread and call; about 40 bytes per byte of the longest piece.
  class Scratch;

  // Takes what ReadTokenizerTables gave; anything else is a bug. Tries every
  // token once, which takes about a microsecond each.
  Bpe(std::vector<std::string> token_bytes, std::vector<Merge> merges,
      const std::vector<int32_t>& byte_tokens);
  Bpe(const Bpe&) = delete;
  Bpe& operator=(const Bpe&) = delete;

  // Appends the ids of `piece`, of any bytes and under 2^31 of them. Time
  // n log n, whatever the bytes.
  void Encode(absl::string_view piece, Scratch& scratch,
              std::vector<int32_t>& ids) const;

  // The bytes of each token by id, added tokens included.
  const std::vector<std::string>& token_bytes() const { return token_bytes_; }

 private:
  void MergeAll(absl::string_view piece, Scratch& scratch) const;
  bool Offer(int32_t left, Scratch& scratch) const;

  std::vector<std::string> token_bytes_;
  std::array<int32_t, 256> byte_tokens_;
  std::vector<Merge> merges_;  // By rank.
  absl::flat_hash_map<uint64_t, uint32_t>
      rank_;  // By left id << 32 | right id.
  // Pieces whose encoding is one token, found at construction: nine of ten
  // pieces of ordinary text need no merging. Keys view token_bytes_.
  absl::flat_hash_map<absl::string_view, int32_t> whole_;
};

class Bpe::Scratch {
 private:
  friend class Bpe;

  // A token of the piece, in a list that closes over merged ones.
  struct Symbol {
    int32_t id;  // -1: merged into the one before.
    int32_t previous;
    int32_t next;  // -1 at the end.
  };
  std::vector<Symbol> symbols_;
  // Pairs that may merge: rank << 32 | position of the left token. One is
  // stale, and passed over, when what stands there is no longer the pair of its
  // rank.
  std::vector<uint64_t> heap_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_TOKENIZER_BPE_H_
