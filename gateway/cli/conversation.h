#ifndef PHALANX_GATEWAY_CLI_CONVERSATION_H_
#define PHALANX_GATEWAY_CLI_CONVERSATION_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/mutex.h"
#include "inference.grpc.pb.h"

namespace phalanx {

// Messages to and fro with one model, and the history that makes each question
// a part of what was said before. One thread asks; any other may cancel.
class Conversation {
 public:
  // `request` has everything but the messages of the user and of the model: a
  // system message, sampling, stopping. `stub` must outlive this.
  Conversation(v1::Inference::StubInterface& stub, v1::ChatRequest request);

  // Puts the question and hands on each event of the answer. Both, of several
  // answers the first, are kept for the next question if any of the answer
  // itself came, cut short or not; otherwise it is as if it had not been asked.
  // CANCELLED after Cancel, and from a service that is being stopped.
  absl::Status Ask(const std::string& question,
                   const std::function<void(const v1::GenerateEvent&)>& show);

  // Ends the answer that is coming. False if none is. Any thread.
  bool Cancel();

  // Was it Cancel that ended the last answer?
  bool cancelled() const;

  // Forgets what was said.
  void StartOver();

  const v1::ChatRequest& request() const { return request_; }

 private:
  v1::Inference::StubInterface& stub_;
  const int first_messages_;
  v1::ChatRequest request_;
  mutable Mutex mutex_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

// What a status means to a person who talks to the service at `address`, and
// what to do.
std::string PlainWords(const absl::Status& status, absl::string_view address);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CLI_CONVERSATION_H_
