#include "gateway/tokenizer/added_tokens.h"

namespace phalanx {
namespace {

constexpr uint32_t kRoot = 0;
constexpr int32_t kNoToken = -1;

uint64_t Edge(uint32_t node, char byte) {
  return uint64_t{node} << 8 | static_cast<uint8_t>(byte);
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens)
    : id_(1, kNoToken) {
  for (const AddedToken& token : tokens) {
    uint32_t node = kRoot;
    for (const char byte : token.content) {
      const auto [edge, added] = next_.try_emplace(
          Edge(node, byte), static_cast<uint32_t>(id_.size()));
      if (added) id_.push_back(kNoToken);
      node = edge->second;
    }
    id_[node] = token.id;
    starts_[static_cast<uint8_t>(token.content[0])] = true;
  }
}

std::optional<AddedTokenFinder::Found> AddedTokenFinder::LongestAt(
    absl::string_view text, size_t begin) const {
  std::optional<Found> longest;
  uint32_t node = kRoot;
  for (size_t at = begin; at < text.size(); ++at) {
    const auto edge = next_.find(Edge(node, text[at]));
    if (edge == next_.end()) break;
    node = edge->second;
    if (id_[node] != kNoToken) longest = {begin, at + 1 - begin, id_[node]};
  }
  return longest;
}

std::optional<AddedTokenFinder::Found> AddedTokenFinder::FindFrom(
    absl::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!starts_[static_cast<uint8_t>(text[at])]) continue;
    if (const auto found = LongestAt(text, at)) return found;
  }
  return std::nullopt;
}

std::optional<int32_t> AddedTokenFinder::IdOf(absl::string_view content) const {
  const auto found = LongestAt(content, 0);
  if (!found.has_value() || found->size != content.size()) return std::nullopt;
  return found->id;
}

}  // namespace phalanx
