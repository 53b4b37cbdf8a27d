#ifndef PHALANX_WORKER_CACHE_RADIX_INDEX_H_
#define PHALANX_WORKER_CACHE_RADIX_INDEX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"

namespace phalanx {

// A tree of token sequences, cut into whole blocks; each salt has a root of its
// own. A node below a root is a whole block behind its parent's tokens, or a
// tail: fewer tokens than a block, and nothing below. Says who is where, and
// decides nothing: what is kept and for how long is PrefixCache's affair. One
// thread.
class RadixIndex {
 public:
  struct Node;
  using Tokens = std::span<const int32_t>;
  // In the order of ids, a prefix before what it begins.
  struct TokensLess {
    bool operator()(Tokens a, Tokens b) const;
  };

  struct Node {
    Node* parent = nullptr;  // None: the root of a salt.
    int64_t end = 0;         // Tokens from the root to the end of this node.
    std::vector<int32_t> tokens;  // Its own, the last of those.
    int32_t block = -1;           // Holds their KV rows; -1 at a root.
    int64_t children = 0;         // Tails included.

    // The owner's: the snapshot of the state at `end`, if one is kept.
    int32_t slot = -1;
    int64_t snapshot = 0;  // Its name.
    int64_t last_use = 0;  // Unique among snapshots.

    // RadixIndex's.
    uint64_t hash = 0;  // Of all tokens from the root, and of the salt.
    const std::string* salt = nullptr;  // Of a root.
    std::map<Tokens, std::unique_ptr<Node>, TokensLess> tails;

    bool has_snapshot() const { return slot >= 0; }
  };

  // Of a block behind tokens with this hash. Finds candidates only, so equal
  // hashes of unlike blocks cost time and nothing else.
  using Hash = uint64_t (*)(uint64_t parent, Tokens block);
  static uint64_t HashBlock(uint64_t parent, Tokens block);

  explicit RadixIndex(int64_t block_tokens, Hash hash = HashBlock);

  // The deepest node with a snapshot whose tokens are the first of `tokens`;
  // null if there is none. Costs one look-up per block, and a few more where a
  // node has tails.
  Node* Longest(absl::string_view salt, Tokens tokens) const;

  // The node of exactly these tokens (at least one), after adding what is
  // missing on the way with its block of `blocks`. New nodes are appended to
  // `added`, the highest first.
  Node* Extend(absl::string_view salt, Tokens tokens,
               std::span<const int32_t> blocks, std::vector<Node*>& added);

  // Without children and snapshot. A root goes like any other node.
  void Remove(Node* node);

 private:
  Node* Deepest(Node* root, Tokens tokens) const;
  Node* Child(const Node& parent, uint64_t hash, Tokens block) const;
  Node* LongestTail(const Node& parent, Tokens tokens) const;

  const int64_t block_tokens_;
  const Hash hash_;
  // Lookup by a view of the salt, and addresses that last.
  std::map<std::string, Node, std::less<>> roots_;
  std::unordered_multimap<uint64_t, std::unique_ptr<Node>> whole_;  // By hash.
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_CACHE_RADIX_INDEX_H_
