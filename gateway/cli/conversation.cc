#include "gateway/cli/conversation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/reason.h"
#include "gateway/cli/client.h"

namespace phalanx {

Conversation::Conversation(v1::Inference::StubInterface& stub,
                           v1::ChatRequest request)
    : stub_(stub),
      first_messages_(request.messages_size()),
      request_(std::move(request)) {}

absl::Status Conversation::Ask(
    const std::string& question,
    const std::function<void(const v1::GenerateEvent&)>& show) {
  v1::ChatMessage& user = *request_.add_messages();
  user.set_role("user");
  user.set_content(question);
  grpc::ClientContext context;
  {
    MutexLock lock(mutex_);
    running_ = &context;
    cancelled_ = false;
  }
  v1::ChatMessage answer;
  answer.set_role("assistant");
  const auto stream = stub_.Chat(&context, request_);
  v1::GenerateEvent event;
  while (stream->Read(&event)) {
    const v1::Delta& delta = event.delta();
    if (delta.index() == 0)
      (delta.channel() == v1::CHANNEL_REASONING
           ? *answer.mutable_reasoning_content()
           : *answer.mutable_content())
          .append(delta.text());
    show(event);
  }
  const absl::Status status = FromGrpc(stream->Finish());
  {
    MutexLock lock(mutex_);
    running_ = nullptr;
  }
  if (status.ok() || !answer.content().empty())
    *request_.add_messages() = std::move(answer);
  else
    request_.mutable_messages()->RemoveLast();
  return status;
}

bool Conversation::Cancel() {
  MutexLock lock(mutex_);
  if (running_ == nullptr) return false;
  running_->TryCancel();
  cancelled_ = true;
  return true;
}

bool Conversation::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

void Conversation::StartOver() {
  while (request_.messages_size() > first_messages_)
    request_.mutable_messages()->RemoveLast();
}

std::string PlainWords(const absl::Status& status, absl::string_view address) {
  const std::string word = ReasonOf(status).word;
  if (word == "GROUP_LOST")
    return "a part of the service died while it answered and is being "
           "restarted; ask again in a few seconds";
  if (word == "STARTING" || word == "NO_READY_GROUP")
    return "the service is not ready yet; ask again in a moment (`phalanx "
           "status` shows how far it is)";
  if (word == "DRAINING")
    return "the service is being stopped; start it again with `phalanx serve`";
  if (word == "QUEUE_FULL")
    return "the service has too many requests already; ask again in a moment";
  if (word.empty() && absl::IsCancelled(status))
    return "the service ended the answer; it may be being stopped";
  if (absl::IsUnavailable(status))
    return absl::StrCat("no service answers at ", address,
                        "; start one with `phalanx serve`");
  if (word.empty() && absl::IsNotFound(status))
    return std::string(status.message());
  return Describe(status);
}

}  // namespace phalanx
