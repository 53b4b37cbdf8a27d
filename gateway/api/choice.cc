#include "gateway/api/choice.h"

#include <algorithm>
#include <utility>

namespace phalanx {
namespace {

int64_t TokensOf(const v1::Delta& delta) {
  return std::max(delta.token_ids_size(), delta.logprobs_size());
}

size_t ChannelOf(const v1::Delta& delta) {
  return delta.channel() - v1::CHANNEL_CONTENT;
}

template <typename Repeated>
void DropFront(int64_t count, Repeated& values) {
  values.erase(values.begin(),
               values.begin() + std::min<int64_t>(count, values.size()));
}

}  // namespace

Choice::Choice(const PreparedRequest& request, const Tokenizer* tokenizer,
               int index)
    : request_(request), index_(index), text_(request, tokenizer) {}

std::vector<v1::Delta> Choice::Restore(
    const SentPart& sent, std::optional<std::span<const int32_t>> emitted,
    const TextBytes* seen) {
  before_ = owed_ = sent_ = sent;
  if (!emitted.has_value()) return {};
  google::protobuf::RepeatedPtrField<v1::WorkerToken> tokens;
  for (const int32_t id : *emitted) tokens.Add()->set_token_id(id);
  std::vector<v1::Delta> deltas = text_.Push(tokens);
  emitted_.assign(emitted->begin(), emitted->begin() + text_.tokens());
  restored_tokens_ = text_.tokens();
  restored_reasoning_tokens_ = text_.reasoning_tokens();
  // A token that is older than the ids does not know how much text came with
  // them: what the client says, or all that they give.
  const auto count = static_cast<int64_t>(emitted->size());
  if (seen != nullptr) {
    before_.text_bytes = *seen;
  } else if (count != sent.tokens) {
    before_.text_bytes = {};
    for (const v1::Delta& delta : deltas)
      before_.text_bytes[ChannelOf(delta)] +=
          static_cast<int64_t>(delta.text().size());
  }
  before_.tokens = count;
  before_.ids_digest = IdsDigest(*emitted);
  owed_ = sent_ = before_;
  deltas = Withhold(std::move(deltas));
  withheld_tokens_ = 0;  // Nothing was computed.
  return deltas;
}

std::vector<v1::Delta> Choice::Push(
    const google::protobuf::RepeatedPtrField<v1::WorkerToken>& tokens) {
  const int64_t before = text_.tokens();
  std::vector<v1::Delta> deltas = text_.Push(tokens);
  for (int64_t i = 0; i < text_.tokens() - before; ++i)
    emitted_.push_back(tokens[static_cast<int>(i)].token_id());
  return Withhold(std::move(deltas));
}

std::vector<v1::Delta> Choice::Withhold(std::vector<v1::Delta> deltas) {
  for (v1::Delta& delta : deltas) {
    delta.set_index(index_);
    const int64_t tokens = std::min(owed_.tokens, TokensOf(delta));
    if (tokens > 0) {
      DropFront(tokens, *delta.mutable_token_ids());
      DropFront(tokens, *delta.mutable_logprobs());
      owed_.tokens -= tokens;
      withheld_tokens_ += tokens;
    }
    int64_t& owed_bytes = owed_.text_bytes[ChannelOf(delta)];
    const int64_t bytes =
        std::min(owed_bytes, static_cast<int64_t>(delta.text().size()));
    if (bytes > 0) {
      delta.mutable_text()->erase(0, bytes);
      owed_bytes -= bytes;
    }
  }
  std::erase_if(deltas, [](const v1::Delta& delta) {
    return TokensOf(delta) == 0 && delta.text().empty();
  });
  return deltas;
}

std::optional<v1::WorkerFinished> Choice::Whole() const {
  v1::WorkerFinished why;
  const auto& stop_ids = request_.worker.stop_ids();
  const auto count = static_cast<int64_t>(emitted_.size());
  if (!emitted_.empty() &&
      std::binary_search(stop_ids.begin(), stop_ids.end(), emitted_.back())) {
    why.set_reason(v1::WorkerFinished::STOP);
    why.set_stop_id(emitted_.back());
  } else if (stopped() || count >= request_.worker.max_tokens()) {
    why.set_reason(v1::WorkerFinished::LENGTH);
  } else {
    return std::nullopt;
  }
  return why;
}

Choice::Ending Choice::End(const v1::WorkerFinished& why) {
  Ending ending;
  ending.deltas = Withhold(text_.Flush());
  v1::Finished& finished = ending.finished;
  finished.set_index(index_);
  if (stopped()) {
    ending.outcome = RequestOutcome::kStopString;
    finished.set_reason(v1::FINISH_REASON_STOP_STRING);
    finished.set_matched_stop_string(*text_.matched_stop());
  } else if (why.reason() == v1::WorkerFinished::STOP) {
    ending.outcome = RequestOutcome::kStop;
    finished.set_reason(v1::FINISH_REASON_STOP);
    finished.set_matched_stop_id(why.stop_id());
  } else if (why.reason() == v1::WorkerFinished::TIME_LIMIT) {
    ending.outcome = RequestOutcome::kTimeLimit;
    finished.set_reason(v1::FINISH_REASON_TIME_LIMIT);
  } else {
    ending.outcome = RequestOutcome::kLength;
    finished.set_reason(v1::FINISH_REASON_LENGTH);
  }
  return ending;
}

void Choice::Sent(const v1::Delta& delta) {
  sent_.tokens += TokensOf(delta);
  sent_.text_bytes[ChannelOf(delta)] +=
      static_cast<int64_t>(delta.text().size());
}

SentPart Choice::sent() const {
  SentPart part = sent_;
  part.ids_digest =
      part.tokens == before_.tokens
          ? before_.ids_digest
          : IdsDigest({emitted_.data(), static_cast<size_t>(part.tokens)});
  return part;
}

}  // namespace phalanx
