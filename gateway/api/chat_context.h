#ifndef PHALANX_GATEWAY_API_CHAT_CONTEXT_H_
#define PHALANX_GATEWAY_API_CHAT_CONTEXT_H_

#include "gateway/chat/chat_template.h"
#include "inference.pb.h"

namespace phalanx {

// A checked ChatRequest as the template's variables. Pure; any thread. Text
// that must be JSON is checked by the template.
ChatContext ToChatContext(const v1::ChatRequest& request);

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_CHAT_CONTEXT_H_
