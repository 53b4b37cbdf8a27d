#ifndef PHALANX_GATEWAY_API_ANCHORS_H_
#define PHALANX_GATEWAY_API_ANCHORS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gateway/tokenizer/tokenizer.h"

namespace phalanx {

// The most positions that one request names.
inline constexpr size_t kMostAnchors = 256;

// Where a worker should keep the state of a prompt for others, as
// WorkerGenerateRequest.anchors: before each token that begins a message, the
// model's <|im_start|>. The last of a chat is where the generation suffix
// begins, so that the next turn computes nothing of what stands before it. Of
// more than kMostAnchors the first and the last ones stay. With more than one
// choice also before the last token, which each choice then computes itself.
// Ascending, each in [1, prompt size). `tokenizer` may be null: it knows of no
// message.
std::vector<int32_t> FindAnchors(std::span<const int32_t> prompt_ids,
                                 const Tokenizer* tokenizer, int choices);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_ANCHORS_H_
