#ifndef PHALANX_GATEWAY_API_TEXT_PIPELINE_H_
#define PHALANX_GATEWAY_API_TEXT_PIPELINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gateway/api/prepare.h"
#include "gateway/chat/output_parser.h"
#include "gateway/tokenizer/detokenizer.h"
#include "inference.pb.h"
#include "worker.pb.h"

namespace phalanx {

// A token's log-probability, and those of the most likely, as clients see it.
void ToLogprob(const v1::WorkerToken& token, v1::TokenLogprob& logprob);

// Tokens of one stream -> deltas: bytes to whole UTF-8, then one machine for
// stop strings and reasoning. However the tokens are cut into events, each
// channel's text is the same. One per stream, one thread at a time.
class TextPipeline {
 public:
  TextPipeline(const PreparedRequest& request, const Tokenizer* tokenizer);

  // Deltas for these tokens, in order. Stops taking tokens once a stop string
  // matched. A stop token gives its id and no text, whether or not the worker
  // has said yet that it ended the stream.
  std::vector<v1::Delta> Push(
      const google::protobuf::RepeatedPtrField<v1::WorkerToken>& tokens);

  // What was held back.
  std::vector<v1::Delta> Flush();

  // The stop string that ended the text.
  const std::optional<std::string>& matched_stop() const {
    return matched_stop_;
  }

  int64_t tokens() const { return tokens_; }
  int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  void Add(const v1::WorkerToken& token, std::vector<v1::Delta>& deltas);
  void AddText(std::vector<Piece> pieces, std::vector<v1::Delta>& deltas);
  v1::Delta& DeltaOf(v1::Channel channel, std::vector<v1::Delta>& deltas);
  v1::Channel channel() const;

  const bool wants_text_;
  const bool wants_ids_;
  const bool wants_logprobs_;
  const std::vector<int32_t> stop_ids_;  // Ascending.
  std::optional<IncrementalDetokenizer> detokenizer_;
  OutputParser parser_;
  std::optional<std::string> matched_stop_;
  int64_t tokens_ = 0;
  int64_t reasoning_tokens_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_TEXT_PIPELINE_H_
