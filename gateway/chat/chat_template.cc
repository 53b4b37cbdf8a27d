#include "gateway/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "gateway/chat/jinja/json.h"
#include "gateway/chat/jinja/value.h"
#include "nlohmann/json.hpp"

namespace phalanx {
namespace {

using jinja::Mapping;
using jinja::Value;

// Largest tokenizer_config.json that is read.
constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// Names that a request's extra variables may not take.
constexpr std::array<const char*, 6> kReserved = {
    "messages",        "tools",
    "documents",       "add_generation_prompt",
    "enable_thinking", kAdditionalSpecialTokens};

absl::Status Invalid(absl::string_view message) {
  return absl::InvalidArgumentError(message);
}

// The whole file; NOT_FOUND if it cannot be opened.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path,
                                     size_t max_bytes) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    return absl::NotFoundError(absl::StrCat(path.string(), " is not there"));
  }
  if (bytes > max_bytes) {
    return Invalid(absl::StrCat(path.string(), " has ", bytes,
                                " bytes; must be at most ", max_bytes));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The "chat_template" of a tokenizer_config.json: a string, or a list of named
// ones of which "default" is meant. NOT_FOUND if it has none.
absl::StatusOr<std::string> TemplateOfConfig(const std::string& text,
                                             absl::string_view path) {
  const nlohmann::json config =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return Invalid(absl::StrCat(path, " holds no JSON object"));
  }
  const auto entry = config.find("chat_template");
  if (entry != config.end() && entry->is_string()) {
    return entry->get<std::string>();
  }
  if (entry != config.end() && entry->is_array()) {
    for (const nlohmann::json& named : *entry) {
      if (!named.is_object() || !named.contains("name") ||
          !named.contains("template")) {
        continue;
      }
      if (named["name"] == "default" && named["template"].is_string()) {
        return named["template"].get<std::string>();
      }
    }
  }
  return absl::NotFoundError(
      absl::StrCat(path, " has no string \"chat_template\""));
}

absl::StatusOr<Value> ParseField(absl::string_view json,
                                 absl::string_view path) {
  absl::StatusOr<Value> value = jinja::ParseJson(json);
  if (value.ok()) return value;
  return Invalid(absl::StrCat(path, ": ", value.status().message()));
}

absl::Status Put(Mapping& mapping, absl::string_view name, Value value) {
  return mapping.Set(Value::String(std::string(name)), std::move(value));
}

absl::Status PutText(Mapping& mapping, absl::string_view name,
                     const std::string& text) {
  return Put(mapping, name, Value::String(text));
}

absl::StatusOr<Value> ToolCallValue(const ToolCall& call,
                                    absl::string_view path) {
  auto function = std::make_shared<Mapping>();
  RETURN_IF_ERROR(PutText(*function, "name", call.name));
  Value arguments;
  ASSIGN_OR_RETURN(arguments,
                   ParseField(call.arguments_json.empty() ? std::string("{}")
                                                          : call.arguments_json,
                              absl::StrCat(path, ".arguments")));
  if (!arguments.is_mapping()) {
    return Invalid(absl::StrCat(path, ".arguments is no JSON object"));
  }
  RETURN_IF_ERROR(Put(*function, "arguments", std::move(arguments)));
  auto entry = std::make_shared<Mapping>();
  if (!call.id.empty()) RETURN_IF_ERROR(PutText(*entry, "id", call.id));
  RETURN_IF_ERROR(PutText(*entry, "type", "function"));
  ASSIGN_OR_RETURN(Value function_value,
                   Value::FromMapping(std::move(function)));
  RETURN_IF_ERROR(Put(*entry, "function", std::move(function_value)));
  return Value::FromMapping(std::move(entry));
}

absl::StatusOr<Value> ContentValue(const ChatMessage& message,
                                   absl::string_view path) {
  if (message.content && !message.text_parts.empty()) {
    return Invalid(absl::StrCat(path, " has both content and text parts"));
  }
  if (message.content) return Value::String(*message.content);
  if (message.text_parts.empty()) return Value();
  std::vector<Value> parts;
  for (const std::string& text : message.text_parts) {
    auto part = std::make_shared<Mapping>();
    RETURN_IF_ERROR(PutText(*part, "type", "text"));
    RETURN_IF_ERROR(PutText(*part, "text", text));
    ASSIGN_OR_RETURN(Value value, Value::FromMapping(std::move(part)));
    parts.push_back(std::move(value));
  }
  return Value::List(std::move(parts));
}

absl::StatusOr<Value> MessageValue(const ChatMessage& message,
                                   const std::string& path) {
  auto entry = std::make_shared<Mapping>();
  RETURN_IF_ERROR(PutText(*entry, "role", message.role));
  ASSIGN_OR_RETURN(Value content, ContentValue(message, path));
  RETURN_IF_ERROR(Put(*entry, "content", std::move(content)));
  // Templates look under one name or the other.
  if (message.reasoning_content) {
    for (absl::string_view name : {"reasoning_content", "thinking"}) {
      RETURN_IF_ERROR(PutText(*entry, name, *message.reasoning_content));
    }
  }
  if (!message.tool_calls.empty()) {
    std::vector<Value> calls;
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      ASSIGN_OR_RETURN(
          Value call,
          ToolCallValue(message.tool_calls[i],
                        absl::StrCat(path, ".tool_calls[", i, "]")));
      calls.push_back(std::move(call));
    }
    ASSIGN_OR_RETURN(Value list, Value::List(std::move(calls)));
    RETURN_IF_ERROR(Put(*entry, "tool_calls", std::move(list)));
  }
  if (!message.name.empty()) {
    RETURN_IF_ERROR(PutText(*entry, "name", message.name));
  }
  if (!message.tool_call_id.empty()) {
    RETURN_IF_ERROR(PutText(*entry, "tool_call_id", message.tool_call_id));
  }
  return Value::FromMapping(std::move(entry));
}

// None if there are no tools: templates ask whether it is defined, then
// whether it is true.
absl::StatusOr<Value> ToolsValue(const std::vector<std::string>& tools_json) {
  if (tools_json.empty()) return Value();
  std::vector<Value> tools;
  for (size_t i = 0; i < tools_json.size(); ++i) {
    ASSIGN_OR_RETURN(Value tool,
                     ParseField(tools_json[i], absl::StrCat("tools[", i, "]")));
    tools.push_back(std::move(tool));
  }
  return Value::List(std::move(tools));
}

bool IsReserved(absl::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), name) !=
             kReserved.end() ||
         std::find(kSpecialTokenNames.begin(), kSpecialTokenNames.end(),
                   name) != kSpecialTokenNames.end();
}

absl::Status PutExtra(Mapping& variables, const ChatContext& context) {
  for (const auto& [name, json] : context.extra_json) {
    if (IsReserved(name)) {
      return Invalid(absl::StrCat("template variable '", name,
                                  "' has a field of its own"));
    }
    ASSIGN_OR_RETURN(
        Value value,
        ParseField(json, absl::StrCat("template variable '", name, "'")));
    RETURN_IF_ERROR(Put(variables, name, std::move(value)));
  }
  return absl::OkStatus();
}

absl::Status PutTokens(Mapping& variables, const SpecialTokens& tokens) {
  for (const auto& [name, text] : tokens.named)
    RETURN_IF_ERROR(PutText(variables, name, text));
  if (tokens.additional.empty()) return absl::OkStatus();
  std::vector<Value> texts;
  for (const std::string& text : tokens.additional)
    texts.push_back(Value::String(text));
  ASSIGN_OR_RETURN(Value list, Value::List(std::move(texts)));
  return Put(variables, kAdditionalSpecialTokens, std::move(list));
}

absl::StatusOr<Mapping> Variables(const ChatContext& context,
                                  const SpecialTokens& tokens) {
  Mapping variables;
  RETURN_IF_ERROR(PutTokens(variables, tokens));
  RETURN_IF_ERROR(PutExtra(variables, context));
  std::vector<Value> messages;
  for (size_t i = 0; i < context.messages.size(); ++i) {
    ASSIGN_OR_RETURN(
        Value message,
        MessageValue(context.messages[i], absl::StrCat("messages[", i, "]")));
    messages.push_back(std::move(message));
  }
  ASSIGN_OR_RETURN(Value list, Value::List(std::move(messages)));
  RETURN_IF_ERROR(Put(variables, "messages", std::move(list)));
  ASSIGN_OR_RETURN(Value tools, ToolsValue(context.tools_json));
  RETURN_IF_ERROR(Put(variables, "tools", std::move(tools)));
  RETURN_IF_ERROR(Put(variables, "documents", Value()));
  RETURN_IF_ERROR(Put(variables, "add_generation_prompt",
                      Value::Bool(context.add_generation_prompt)));
  if (context.enable_thinking) {
    RETURN_IF_ERROR(Put(variables, "enable_thinking",
                        Value::Bool(*context.enable_thinking)));
  }
  return variables;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(
    absl::string_view model_dir) {
  const std::filesystem::path folder{std::string(model_dir)};
  std::filesystem::path path = folder / "chat_template.jinja";
  absl::StatusOr<std::string> source = ReadFile(path, jinja::kMaxTemplateBytes);
  const std::filesystem::path config_path = folder / "tokenizer_config.json";
  const absl::StatusOr<std::string> config =
      ReadFile(config_path, kMaxConfigBytes);
  SpecialTokens tokens;
  if (config.ok()) {
    ASSIGN_OR_RETURN(tokens, ParseSpecialTokens(*config, config_path.string()));
  } else if (!absl::IsNotFound(config.status())) {
    return config.status();
  }
  if (absl::IsNotFound(source.status())) {
    if (!config.ok()) {
      return absl::NotFoundError(absl::StrCat(
          model_dir,
          " has neither chat_template.jinja nor tokenizer_config.json"));
    }
    path = config_path;
    source = TemplateOfConfig(*config, path.string());
  }
  RETURN_IF_ERROR(source.status());
  absl::StatusOr<std::unique_ptr<ChatTemplate>> parsed =
      Parse(*source, std::move(tokens));
  if (parsed.ok()) return parsed;
  return Invalid(absl::StrCat(path.string(), ": ", parsed.status().message()));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(
    absl::string_view source, SpecialTokens tokens) {
  ASSIGN_OR_RETURN(std::unique_ptr<jinja::Template> parsed,
                   jinja::Template::Parse(source));
  return std::unique_ptr<ChatTemplate>(
      new ChatTemplate(std::move(parsed), std::move(tokens)));
}

absl::StatusOr<std::string> ChatTemplate::Render(
    const ChatContext& context) const {
  ASSIGN_OR_RETURN(const Mapping variables, Variables(context, tokens_));
  jinja::RenderOptions options;
  options.now_unix_seconds = context.now_unix_seconds;
  return template_->Render(variables, options);
}

}  // namespace phalanx
