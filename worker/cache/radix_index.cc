#include "worker/cache/radix_index.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "common/check.h"

namespace phalanx {
namespace {

int64_t Size(RadixIndex::Tokens tokens) {
  return static_cast<int64_t>(tokens.size());
}

int64_t CommonTokens(RadixIndex::Tokens a, RadixIndex::Tokens b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

bool RadixIndex::TokensLess::operator()(Tokens a, Tokens b) const {
  return std::ranges::lexicographical_compare(a, b);
}

uint64_t RadixIndex::HashBlock(uint64_t parent, Tokens block) {
  return absl::HashOf(
      parent, absl::string_view(reinterpret_cast<const char*>(block.data()),
                                block.size_bytes()));
}

RadixIndex::RadixIndex(int64_t block_tokens, Hash hash)
    : block_tokens_(block_tokens), hash_(hash) {
  CHECK(block_tokens >= 1);
}

RadixIndex::Node* RadixIndex::Child(const Node& parent, uint64_t hash,
                                    Tokens block) const {
  const auto [first, last] = whole_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    Node* node = it->second.get();
    if (node->parent == &parent && std::ranges::equal(node->tokens, block))
      return node;
  }
  return nullptr;
}

RadixIndex::Node* RadixIndex::Deepest(Node* root, Tokens tokens) const {
  Node* node = root;
  while (node->end + block_tokens_ <= Size(tokens)) {
    const Tokens block = tokens.subspan(node->end, block_tokens_);
    Node* child = Child(*node, hash_(node->hash, block), block);
    if (child == nullptr) break;
    node = child;
  }
  return node;
}

// The tail just before `tokens` in the order either begins them, and then no
// longer one does; or it leaves them somewhere, and then none that begins them
// goes beyond that place.
RadixIndex::Node* RadixIndex::LongestTail(const Node& parent,
                                          Tokens tokens) const {
  while (!parent.tails.empty()) {
    auto next = parent.tails.upper_bound(tokens);
    if (next == parent.tails.begin()) return nullptr;
    Node* tail = std::prev(next)->second.get();
    const int64_t common = CommonTokens(tail->tokens, tokens);
    if (common == Size(tail->tokens)) return tail;
    tokens = tokens.first(common);
  }
  return nullptr;
}

RadixIndex::Node* RadixIndex::Longest(absl::string_view salt,
                                      Tokens tokens) const {
  const auto root = roots_.find(salt);
  if (root == roots_.end()) return nullptr;
  // Only the way there needs it to be writable.
  Node* node = Deepest(const_cast<Node*>(&root->second), tokens);
  for (; node != nullptr; node = node->parent) {
    Node* tail = LongestTail(*node, tokens.subspan(node->end));
    if (tail != nullptr) return tail;
    if (node->has_snapshot()) return node;
  }
  return nullptr;
}

RadixIndex::Node* RadixIndex::Extend(absl::string_view salt, Tokens tokens,
                                     std::span<const int32_t> blocks,
                                     std::vector<Node*>& added) {
  CHECK(!tokens.empty());
  const auto [root, is_new] = roots_.try_emplace(std::string(salt));
  if (is_new) {
    root->second.salt = &root->first;
    root->second.hash = absl::HashOf(salt);
  }
  Node* node = Deepest(&root->second, tokens);
  while (node->end < Size(tokens)) {
    const Tokens own = tokens.subspan(
        node->end, std::min(block_tokens_, Size(tokens) - node->end));
    const bool whole = Size(own) == block_tokens_;
    if (!whole) {
      const auto tail = node->tails.find(own);
      if (tail != node->tails.end()) return tail->second.get();
    }
    auto child = std::make_unique<Node>();
    child->parent = node;
    child->end = node->end + Size(own);
    child->tokens.assign(own.begin(), own.end());
    child->block = blocks[node->end / block_tokens_];
    if (whole) child->hash = hash_(node->hash, own);
    ++node->children;
    Node* parent = std::exchange(node, child.get());
    added.push_back(node);
    if (whole)
      whole_.emplace(node->hash, std::move(child));
    else
      parent->tails.emplace(node->tokens, std::move(child));
  }
  return node;
}

void RadixIndex::Remove(Node* node) {
  CHECK(node->children == 0 && !node->has_snapshot());
  if (node->parent == nullptr) {
    roots_.erase(roots_.find(*node->salt));
    return;
  }
  --node->parent->children;
  if (Size(node->tokens) < block_tokens_) {
    auto& tails = node->parent->tails;
    tails.erase(tails.find(node->tokens));
    return;
  }
  const auto [first, last] = whole_.equal_range(node->hash);
  whole_.erase(std::find_if(
      first, last, [node](const auto& it) { return it.second.get() == node; }));
}

}  // namespace phalanx
