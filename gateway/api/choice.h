#ifndef PHALANX_GATEWAY_API_CHOICE_H_
#define PHALANX_GATEWAY_API_CHOICE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gateway/api/outcome.h"
#include "gateway/api/prepare.h"
#include "gateway/api/resume_token.h"
#include "gateway/api/text_pipeline.h"
#include "inference.pb.h"
#include "worker.pb.h"

namespace phalanx {

// One of the n answers of a request: its tokens become deltas, by machines that
// hold their state, so it does not matter which worker sends a token, nor how
// often the stream of a worker broke in between. Made with its stream and dies
// with it; one thread at a time.
class Choice {
 public:
  // The request outlives it.
  Choice(const PreparedRequest& request, const Tokenizer* tokenizer, int index);

  // Its client has a part of it from another stream: that part is withheld.
  // With `emitted`, the ids that it has, they need not be computed again; else
  // they come from Push. The deltas hold what these ids give and the client has
  // not: of their text, it has `seen`, or where that is null all. Called once,
  // first.
  std::vector<v1::Delta> Restore(
      const SentPart& sent, std::optional<std::span<const int32_t>> emitted,
      const TextBytes* seen = nullptr);

  // The next tokens. After a stop string nothing is taken.
  std::vector<v1::Delta> Push(
      const google::protobuf::RepeatedPtrField<v1::WorkerToken>& tokens);

  // How it ends where no worker need go on: a stop string, a stop id or
  // max_tokens has been met. An answer of max_tokens 0 is whole as it is.
  std::optional<v1::WorkerFinished> Whole() const;

  struct Ending {
    std::vector<v1::Delta> deltas;  // What was held back.
    v1::Finished finished;
    RequestOutcome outcome;
  };
  // `why` counts where no stop string was met. Called once, last.
  Ending End(const v1::WorkerFinished& why);

  bool stopped() const { return text_.matched_stop().has_value(); }
  // All tokens so far, in order: what a worker must replay.
  const std::vector<int32_t>& emitted() const { return emitted_; }
  int64_t tokens() const { return text_.tokens(); }
  int64_t reasoning_tokens() const { return text_.reasoning_tokens(); }
  // Of `tokens()`: computed by others, for this client.
  int64_t restored_tokens() const { return restored_tokens_; }
  int64_t restored_reasoning_tokens() const {
    return restored_reasoning_tokens_;
  }
  // Of `tokens()`: computed again and not sent again.
  int64_t withheld_tokens() const { return withheld_tokens_; }

  // This delta is on its way to the client.
  void Sent(const v1::Delta& delta);
  SentPart sent() const;

 private:
  // Cuts off what the client has; drops deltas of which nothing is left.
  std::vector<v1::Delta> Withhold(std::vector<v1::Delta> deltas);

  const PreparedRequest& request_;
  const int index_;
  TextPipeline text_;
  std::vector<int32_t> emitted_;
  int64_t restored_tokens_ = 0;
  int64_t restored_reasoning_tokens_ = 0;
  int64_t withheld_tokens_ = 0;
  SentPart before_;  // Sent by an earlier stream.
  SentPart owed_;    // Of that, what has not come by yet.
  SentPart sent_;    // Without its digest.
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_CHOICE_H_
