#include "gateway/chat/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMini[] = SOURCE_ROOT "/deploy/models/phalanx-mini";

Json ReadAnswers() {
  std::ifstream file(std::string(kMini) + "/answers.json");
  return Json::parse(file, nullptr, /*allow_exceptions=*/false);
}

ChatMessage MessageOf(const Json& json) {
  ChatMessage message;
  message.role = json["role"].get<std::string>();
  if (json.contains("content") && json["content"].is_string()) {
    message.content = json["content"].get<std::string>();
  }
  if (json.contains("reasoning_content")) {
    message.reasoning_content = json["reasoning_content"].get<std::string>();
  }
  for (const Json& call : json.value("tool_calls", Json::array())) {
    message.tool_calls.push_back(
        ToolCall{"", call["function"]["name"].get<std::string>(),
                 call["function"]["arguments"].dump()});
  }
  return message;
}

ChatContext ContextOf(const Json& json) {
  ChatContext context;
  for (const Json& message : json["messages"]) {
    context.messages.push_back(MessageOf(message));
  }
  for (const Json& tool : json.value("tools", Json::array())) {
    context.tools_json.push_back(tool.dump());
  }
  if (json.contains("enable_thinking")) {
    context.enable_thinking = json["enable_thinking"].get<bool>();
  }
  return context;
}

ChatContext OneMessage(ChatMessage message) {
  ChatContext context;
  context.messages.push_back(std::move(message));
  return context;
}

ChatMessage User(std::string content) {
  ChatMessage message;
  message.role = "user";
  message.content = std::move(content);
  return message;
}

std::string Render(absl::string_view source, const ChatContext& context) {
  return ChatTemplate::Parse(source).value()->Render(context).value();
}

// A folder of its own for one test, gone after it.
class ModelFolder {
 public:
  ModelFolder()
      : path_(std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(ChatTemplate, RendersEveryConversationOfTheModelAsTheReferenceDoes) {
  const auto chat = ChatTemplate::Load(kMini);
  ASSERT_OK(chat);
  const Json answers = ReadAnswers();
  ASSERT_EQ(answers.size(), 20u);

  for (const Json& answer : answers) {
    SCOPED_TRACE(answer["name"].get<std::string>());
    const auto prompt = (*chat)->Render(ContextOf(answer));
    ASSERT_OK(prompt);
    EXPECT_EQ(*prompt, answer["prompt"].get<std::string>());
  }
}

TEST(ChatTemplate, GivesTheTemplatesOwnMessageWhenItRefuses) {
  const auto chat = ChatTemplate::Load(kMini);
  ASSERT_OK(chat);
  ChatMessage narrator = User("x");
  narrator.role = "narrator";

  EXPECT_THAT((*chat)->Render(OneMessage(narrator)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       std::string("unknown role narrator")));
}

TEST(ChatTemplate, IsNotFoundWhereThereIsNone) {
  const ModelFolder folder;
  EXPECT_THAT(ChatTemplate::Load(folder.path()),
              StatusIs(absl::StatusCode::kNotFound,
                       testing::HasSubstr("chat_template.jinja")));
}

TEST(ChatTemplate, IsNotFoundWhereTheConfigHasNone) {
  const ModelFolder folder;
  folder.Write("tokenizer_config.json", "{}");
  EXPECT_THAT(ChatTemplate::Load(folder.path()),
              StatusIs(absl::StatusCode::kNotFound,
                       testing::HasSubstr("tokenizer_config.json")));
}

TEST(ChatTemplate, ComesFromTheConfigWhenItHasNoFileOfItsOwn) {
  const ModelFolder folder;
  folder.Write("tokenizer_config.json", R"({"chat_template": "{{ 1 + 1 }}"})");

  EXPECT_EQ(ChatTemplate::Load(folder.path()).value()->Render({}).value(), "2");
}

TEST(ChatTemplate, SeesTheSpecialTokensOfTheConfig) {
  const ModelFolder folder;
  folder.Write("chat_template.jinja",
               "{{ bos_token }}{{ pad_token }}{{ eos_token is defined }}"
               "{{ additional_special_tokens[1] }}");
  folder.Write("tokenizer_config.json",
               R"({"bos_token": "<s>", "pad_token": {"content": "<pad>"},
                   "eos_token": null, "additional_special_tokens": ["a", "b"],
                   "chat_template": "not this one"})");

  EXPECT_EQ(ChatTemplate::Load(folder.path()).value()->Render({}).value(),
            "<s><pad>Falseb");
}

TEST(ChatTemplate, SeesNoSpecialTokenWhereThereIsNoConfig) {
  const ModelFolder folder;
  folder.Write("chat_template.jinja",
               "{{ bos_token is defined }}"
               "{{ additional_special_tokens is defined }}");

  EXPECT_EQ(ChatTemplate::Load(folder.path()).value()->Render({}).value(),
            "FalseFalse");
}

TEST(ChatTemplate, NamesTheConfigWhoseTokensAreNone) {
  const ModelFolder folder;
  folder.Write("chat_template.jinja", "x");
  folder.Write("tokenizer_config.json", R"({"bos_token": 5})");
  EXPECT_THAT(
      ChatTemplate::Load(folder.path()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::HasSubstr("tokenizer_config.json: bos_token is no")));
}

TEST(ChatTemplate, NamesTheFileWhenItDoesNotParse) {
  const ModelFolder folder;
  folder.Write("chat_template.jinja", "\n{% if %}");
  EXPECT_THAT(
      ChatTemplate::Load(folder.path()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::HasSubstr("chat_template.jinja: template line 2")));
}

TEST(ChatTemplate, SeesAbsentToolsAndDocumentsAsDefinedNone) {
  EXPECT_EQ(Render("{{ tools is defined }}{{ tools is none }}"
                   "{{ documents is defined }}{{ documents is none }}",
                   {}),
            "TrueTrueTrueTrue");
}

TEST(ChatTemplate, SeesThinkingAsUndefinedWhenItIsNotChosen) {
  EXPECT_EQ(Render("{{ enable_thinking is defined }}", {}), "False");
}

TEST(ChatTemplate, CopiesReasoningToBothNames) {
  ChatMessage message = User("x");
  message.reasoning_content = "why";
  EXPECT_EQ(Render("{{ messages[0].reasoning_content }}"
                   "{{ messages[0].thinking }}",
                   OneMessage(message)),
            "whywhy");
}

TEST(ChatTemplate, KeepsTheOrderOfKeysAndTheWritingOfNumbers) {
  ChatContext context;
  context.tools_json = {R"({"z": 1.0, "a": [1e-5, 12345678901234567890]})"};
  EXPECT_EQ(Render("{{ tools[0] | tojson }}", context),
            R"({"z": 1.0, "a": [1e-05, 12345678901234567890]})");
}

TEST(ChatTemplate, PassesPartsAndNullContent) {
  ChatContext context;
  context.messages.resize(2);
  context.messages[0].text_parts = {"a", "b"};
  EXPECT_EQ(Render("{{ messages | map(attribute='content') | list | tojson }}",
                   context),
            R"([[{"type": "text", "text": "a"}, )"
            R"({"type": "text", "text": "b"}], null])");
}

TEST(ChatTemplate, PassesExtraVariables) {
  ChatContext context;
  context.extra_json["reasoning_effort"] = "\"low\"";
  EXPECT_EQ(Render("{{ reasoning_effort }}", context), "low");
}

TEST(ChatTemplate, RefusesAnExtraVariableThatHasAField) {
  for (const std::string name :
       {"messages", "pad_token", "additional_special_tokens"}) {
    ChatContext context;
    context.extra_json[name] = "[]";
    EXPECT_THAT(ChatTemplate::Parse("x").value()->Render(context),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::HasSubstr("'" + name + "'")));
  }
}

TEST(ChatTemplate, NamesTheToolThatIsNoJson) {
  ChatContext context;
  context.tools_json = {"{}", "{"};
  EXPECT_THAT(ChatTemplate::Parse("x").value()->Render(context),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::StartsWith("tools[1]: ")));
}

TEST(ChatTemplate, NamesTheCallWhoseArgumentsAreNoObject) {
  ChatMessage message = User("x");
  message.tool_calls = {ToolCall{"", "f", "[1]"}};
  EXPECT_THAT(
      ChatTemplate::Parse("x").value()->Render(OneMessage(message)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::StartsWith("messages[0].tool_calls[0].arguments")));
}

TEST(ChatTemplate, SeesAClockOnlyWhenGivenOne) {
  ChatContext context;
  EXPECT_EQ(Render("{{ strftime_now is defined }}", context), "False");
  context.now_unix_seconds = 0;
  EXPECT_EQ(Render("{{ strftime_now('%Y-%m-%d') }}", context), "1970-01-01");
}

TEST(ChatTemplate, RendersOnManyThreadsAtOnce) {
  const auto chat = ChatTemplate::Load(kMini);
  ASSERT_OK(chat);
  const Json answers = ReadAnswers();
  const ChatContext context = ContextOf(answers.back());
  std::vector<std::string> prompts(4);
  std::vector<std::thread> threads;

  for (std::string& prompt : prompts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) prompt = (*chat)->Render(context).value();
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (const std::string& prompt : prompts) {
    EXPECT_EQ(prompt, answers.back()["prompt"].get<std::string>());
  }
}

}  // namespace
}  // namespace phalanx
