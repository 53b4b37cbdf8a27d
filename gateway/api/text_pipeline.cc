#include "gateway/api/text_pipeline.h"

#include <algorithm>
#include <utility>

namespace phalanx {

void ToLogprob(const v1::WorkerToken& token, v1::TokenLogprob& logprob) {
  logprob.set_token_id(token.token_id());
  logprob.set_logprob(token.logprob());
  for (const v1::WorkerTopLogprob& top : token.top()) {
    v1::TopLogprob& entry = *logprob.add_top();
    entry.set_token_id(top.token_id());
    entry.set_logprob(top.logprob());
  }
}

TextPipeline::TextPipeline(const PreparedRequest& request,
                           const Tokenizer* tokenizer)
    : wants_text_(request.wants_text),
      wants_ids_(request.wants_ids),
      wants_logprobs_(request.wants_logprobs),
      stop_ids_(request.worker.stop_ids().begin(),
                request.worker.stop_ids().end()),
      parser_({.starts_in_reasoning = request.starts_in_reasoning,
               .stop_strings = request.stop_strings,
               .include_stop = request.include_stop}) {
  if (tokenizer != nullptr)
    detokenizer_.emplace(*tokenizer, /*skip_special=*/true);
}

std::vector<v1::Delta> TextPipeline::Push(
    const google::protobuf::RepeatedPtrField<v1::WorkerToken>& tokens) {
  std::vector<v1::Delta> deltas;
  for (int i = 0; i < tokens.size() && !matched_stop_.has_value(); ++i)
    Add(tokens[i], deltas);
  return deltas;
}

// The ids belong to the channel that the stream was in before the token; its
// text may already belong to the next.
void TextPipeline::Add(const v1::WorkerToken& token,
                       std::vector<v1::Delta>& deltas) {
  ++tokens_;
  if (channel() == v1::CHANNEL_REASONING) ++reasoning_tokens_;
  if (wants_ids_ || wants_logprobs_) {
    v1::Delta& delta = DeltaOf(channel(), deltas);
    if (wants_ids_) delta.add_token_ids(token.token_id());
    if (wants_logprobs_) ToLogprob(token, *delta.add_logprobs());
  }
  if (!detokenizer_.has_value() ||
      std::binary_search(stop_ids_.begin(), stop_ids_.end(), token.token_id()))
    return;
  AddText(parser_.Push(detokenizer_->Push(token.token_id())), deltas);
}

std::vector<v1::Delta> TextPipeline::Flush() {
  std::vector<v1::Delta> deltas;
  if (detokenizer_.has_value() && !matched_stop_.has_value()) {
    AddText(parser_.Push(detokenizer_->Flush()), deltas);
    AddText(parser_.Flush(), deltas);
  }
  return deltas;
}

void TextPipeline::AddText(std::vector<Piece> pieces,
                           std::vector<v1::Delta>& deltas) {
  for (Piece& piece : pieces) {
    if (!wants_text_ || piece.text.empty()) continue;
    const v1::Channel channel = piece.channel == Channel::kReasoning
                                    ? v1::CHANNEL_REASONING
                                    : v1::CHANNEL_CONTENT;
    DeltaOf(channel, deltas).mutable_text()->append(piece.text);
  }
  matched_stop_ = parser_.matched_stop();
}

v1::Channel TextPipeline::channel() const {
  return parser_.in_reasoning() ? v1::CHANNEL_REASONING : v1::CHANNEL_CONTENT;
}

// The last delta if it is of this channel, else a new one.
v1::Delta& TextPipeline::DeltaOf(v1::Channel channel,
                                 std::vector<v1::Delta>& deltas) {
  if (deltas.empty() || deltas.back().channel() != channel) {
    deltas.emplace_back();
    deltas.back().set_channel(channel);
  }
  return deltas.back();
}

}  // namespace phalanx
