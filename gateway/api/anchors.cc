#include "gateway/api/anchors.h"

#include <optional>

namespace phalanx {
namespace {

constexpr char kMessageStart[] = "<|im_start|>";

}  // namespace

std::vector<int32_t> FindAnchors(std::span<const int32_t> prompt_ids,
                                 const Tokenizer* tokenizer, int choices) {
  std::optional<int32_t> start;
  if (tokenizer != nullptr) start = tokenizer->AddedTokenId(kMessageStart);
  std::vector<int32_t> anchors;
  const auto size = static_cast<int32_t>(prompt_ids.size());
  for (int32_t i = 1; i < size; ++i)
    if (prompt_ids[i] == start || (choices > 1 && i == size - 1))
      anchors.push_back(i);
  if (anchors.size() > kMostAnchors)
    anchors.erase(anchors.begin() + kMostAnchors / 2,
                  anchors.end() - kMostAnchors / 2);
  return anchors;
}

}  // namespace phalanx
