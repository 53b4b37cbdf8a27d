#include "gateway/api/chat_context.h"

#include <utility>

namespace phalanx {
namespace {

ChatMessage ToMessage(const v1::ChatMessage& proto) {
  ChatMessage message;
  message.role = proto.role();
  if (proto.parts().empty()) {
    message.content = proto.content();
  } else {
    for (const v1::ContentPart& part : proto.parts())
      message.text_parts.push_back(part.text());
  }
  if (!proto.reasoning_content().empty())
    message.reasoning_content = proto.reasoning_content();
  for (const v1::ToolCall& call : proto.tool_calls())
    message.tool_calls.push_back({.id = call.id(),
                                  .name = call.name(),
                                  .arguments_json = call.arguments_json()});
  message.tool_call_id = proto.tool_call_id();
  message.name = proto.name();
  return message;
}

}  // namespace

ChatContext ToChatContext(const v1::ChatRequest& request) {
  ChatContext context;
  for (const v1::ChatMessage& message : request.messages())
    context.messages.push_back(ToMessage(message));
  context.tools_json.assign(request.tools_json().begin(),
                            request.tools_json().end());
  if (request.reasoning().has_enabled())
    context.enable_thinking = request.reasoning().enabled();
  context.extra_json = {request.template_variables_json().begin(),
                        request.template_variables_json().end()};
  return context;
}

}  // namespace phalanx
