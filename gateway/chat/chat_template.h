#ifndef PHALANX_GATEWAY_CHAT_CHAT_TEMPLATE_H_
#define PHALANX_GATEWAY_CHAT_CHAT_TEMPLATE_H_

// Messages to prompt text, by the checkpoint's own template.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/chat/jinja/template.h"
#include "gateway/chat/special_tokens.h"

namespace phalanx {

struct ToolCall {
  std::string id;              // Empty: none.
  std::string name;            // Of the function.
  std::string arguments_json;  // A JSON object; empty: {}.
};

struct ChatMessage {
  std::string role;
  // At most one of the two; neither: the message has a null content.
  std::optional<std::string> content;
  std::vector<std::string> text_parts;
  std::optional<std::string> reasoning_content;
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;  // Empty: none.
  std::string name;          // Empty: none.
};

// Everything a template may ask for. All text is UTF-8.
struct ChatContext {
  std::vector<ChatMessage> messages;
  std::vector<std::string> tools_json;  // One JSON object each.
  std::optional<bool> enable_thinking;  // Unset: the template's default.
  // Further variables, name to JSON text (chat_template_kwargs). They may not
  // hide the ones above and below.
  std::map<std::string, std::string> extra_json;
  bool add_generation_prompt = true;
  // For templates that print the date (UTC). Unset: they see no clock.
  std::optional<int64_t> now_unix_seconds;
};

// A checkpoint's chat template. Made at start, const after that: any number of
// threads may render at once.
class ChatTemplate {
 public:
  // Reads chat_template.jinja in `model_dir`, else the "chat_template" of its
  // tokenizer_config.json; and that file's special tokens, which the template
  // sees. Errors: NOT_FOUND if there is neither; INVALID_ARGUMENT, with the
  // file, if one does not parse.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(
      absl::string_view model_dir);

  // From the template's text. Errors: INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(
      absl::string_view source, SpecialTokens tokens = {});

  // The prompt. Errors, all INVALID_ARGUMENT: a field that holds no JSON (its
  // path is named), what the template itself raises (its message alone), and
  // what goes wrong in it ("template line 3: ...").
  absl::StatusOr<std::string> Render(const ChatContext& context) const;

 private:
  ChatTemplate(std::unique_ptr<jinja::Template> parsed, SpecialTokens tokens)
      : template_(std::move(parsed)), tokens_(std::move(tokens)) {}

  const std::unique_ptr<jinja::Template> template_;
  const SpecialTokens tokens_;
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_CHAT_CHAT_TEMPLATE_H_
