#include "gateway/tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "common/check.h"

namespace phalanx {
namespace {

constexpr int32_t kNone = -1;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

// For the heap functions of the standard library: the least on top.
constexpr std::greater<uint64_t> kLeastFirst;

}  // namespace

Bpe::Bpe(std::vector<std::string> token_bytes, std::vector<Merge> merges,
         const std::vector<int32_t>& byte_tokens)
    : token_bytes_(std::move(token_bytes)), merges_(std::move(merges)) {
  CHECK(byte_tokens.size() == byte_tokens_.size());
  std::copy(byte_tokens.begin(), byte_tokens.end(), byte_tokens_.begin());
  rank_.reserve(merges_.size());
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    rank_[PairKey(merges_[rank].left, merges_[rank].right)] = rank;
  }
  Scratch scratch;
  for (size_t id = 0; id < token_bytes_.size(); ++id) {
    const std::string& bytes = token_bytes_[id];
    if (bytes.empty()) continue;
    MergeAll(bytes, scratch);
    const Scratch::Symbol& first = scratch.symbols_[0];
    // An added token's bytes may merge into a token of another id: first.id
    // says which one text gets.
    if (first.next == kNone) whole_.try_emplace(bytes, first.id);
  }
}

void Bpe::Encode(absl::string_view piece, Scratch& scratch,
                 std::vector<int32_t>& ids) const {
  if (piece.empty()) return;
  if (const auto found = whole_.find(piece); found != whole_.end()) {
    ids.push_back(found->second);
    return;
  }
  MergeAll(piece, scratch);
  for (int32_t at = 0; at != kNone; at = scratch.symbols_[at].next) {
    ids.push_back(scratch.symbols_[at].id);
  }
}

// Leaves the tokens of `piece` in the list of scratch.symbols_.
void Bpe::MergeAll(absl::string_view piece, Scratch& scratch) const {
  CHECK(piece.size() <
        static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  const auto count = static_cast<int32_t>(piece.size());
  symbols.clear();
  symbols.reserve(piece.size());
  heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    symbols.push_back({byte_tokens_[static_cast<uint8_t>(piece[i])], i - 1,
                       i + 1 < count ? i + 1 : kNone});
  }
  for (int32_t i = 0; i < count; ++i) Offer(i, scratch);
  std::make_heap(heap.begin(), heap.end(), kLeastFirst);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), kLeastFirst);
    const Merge& merge = merges_[heap.back() >> 32];
    const auto at = static_cast<int32_t>(heap.back() & 0xFFFFFFFFu);
    heap.pop_back();
    Scratch::Symbol& left = symbols[at];
    if (left.id != merge.left || left.next == kNone) continue;
    Scratch::Symbol& right = symbols[left.next];
    if (right.id != merge.right) continue;
    left.id = merge.result;
    right.id = kNone;
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = at;
    for (const int32_t neighbour : {left.previous, at}) {
      if (neighbour != kNone && Offer(neighbour, scratch)) {
        std::push_heap(heap.begin(), heap.end(), kLeastFirst);
      }
    }
  }
}

// Appends to the heap's vector the pair that starts at `left`; false if it may
// not merge.
bool Bpe::Offer(int32_t left, Scratch& scratch) const {
  const Scratch::Symbol& symbol = scratch.symbols_[left];
  if (symbol.next == kNone) return false;
  const int32_t right_id = scratch.symbols_[symbol.next].id;
  const auto rank = rank_.find(PairKey(symbol.id, right_id));
  if (rank == rank_.end()) return false;
  scratch.heap_.push_back(uint64_t{rank->second} << 32 |
                          static_cast<uint32_t>(left));
  return true;
}

}  // namespace phalanx
