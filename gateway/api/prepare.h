#ifndef PHALANX_GATEWAY_API_PREPARE_H_
#define PHALANX_GATEWAY_API_PREPARE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gateway/chat/chat_template.h"
#include "gateway/tokenizer/tokenizer.h"
#include "inference.pb.h"
#include "worker.pb.h"

namespace phalanx {

// What a model's folder holds for a gateway; const after start. Models without
// a tokenizer serve token ids only.
struct ModelText {
  std::string name;
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // Null: no Chat.
};

// A request that is ready to go to a worker, with all that its stream needs.
struct PreparedRequest {
  std::string request_id;  // The client's, or drawn.
  // Of every choice, at its first group: all but choice_index, emitted_ids and
  // the times. Asks for the prompt's log-probabilities where nothing is
  // generated, also if the client did not: a sequence has something to do. Its
  // own request_id is drawn for each stream: rank 0 may hold one until its next
  // step, and a client may use its id again at once.
  v1::WorkerGenerateRequest worker;
  v1::Accepted accepted;  // Effective parameters, defaults filled in.
  std::string tag;
  std::string user;
  bool wants_text = true;
  bool wants_ids = true;
  bool wants_logprobs = false;
  int n = 1;                     // Choices; each is a sequence of its own.
  bool echo = false;             // The prompt comes back, in Prompt...
  std::string prompt_text;       // ...its text too where text is wanted.
  bool prompt_logprobs = false;  // In Prompt, likewise.
  // From the call's arrival. What is left of it is the worker's.
  std::optional<int64_t> max_time_ms;
  bool truncated = false;  // max_tokens was clamped: Notice TRUNCATED.
  bool starts_in_reasoning = false;
  std::vector<std::string> stop_strings;
  bool include_stop = false;
};

// Render, tokenize, fill in defaults, check against the model's limits.
// `leader` is what rank 0 says of itself. Pure but for the drawing of an unset
// seed and request id; any thread. Errors as inference.proto lists:
// INVALID_ARGUMENT, UNIMPLEMENTED, NOT_FOUND.
absl::StatusOr<PreparedRequest> Prepare(const v1::GenerateRequest& request,
                                        const ModelText& text,
                                        const v1::WorkerStatus& leader);
absl::StatusOr<PreparedRequest> Prepare(const v1::ChatRequest& request,
                                        const ModelText& text,
                                        const v1::WorkerStatus& leader);

// A 64-bit number nobody can foretell; for seeds and ids.
uint64_t RandomNumber();

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_PREPARE_H_
