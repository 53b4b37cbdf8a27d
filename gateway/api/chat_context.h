#ifndef PHALANX_GATEWAY_API_CHAT_CONTEXT_H_
#define PHALANX_GATEWAY_API_CHAT_CONTEXT_H_

#include "absl/status/statusor.h"
#include "gateway/chat/chat_template.h"
#include "inference.pb.h"

namespace phalanx {

// A checked ChatRequest as the template's variables. Pure; any thread.
// INVALID_ARGUMENT/BAD_FIELD names text that is not the JSON it must be.
absl::StatusOr<ChatContext> ToChatContext(const v1::ChatRequest& request);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_CHAT_CONTEXT_H_
