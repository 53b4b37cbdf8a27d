#include "gateway/cli/chat.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "gateway/cli/answer_view.h"
#include "gateway/cli/choice_order.h"
#include "gateway/cli/client.h"
#include "gateway/cli/conversation.h"
#include "gateway/cli/interrupt.h"
#include "gateway/cli/line_editor.h"

namespace phalanx {
namespace {

// Of one line of standard input; the gateway takes no more in a message.
constexpr size_t kMaxMessageBytes = size_t{32} << 20;

v1::ChatRequest FirstRequest(const ChatOptions& options) {
  v1::ChatRequest request;
  if (!options.system.empty()) {
    v1::ChatMessage& system = *request.add_messages();
    system.set_role("system");
    system.set_content(options.system);
  }
  if (options.no_thinking) request.mutable_reasoning()->set_enabled(false);
  FillRequest(options.common, request);
  return request;
}

bool HasColor() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

void Write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int Tell(const absl::Status& status, const std::string& address) {
  std::fprintf(stderr, "phalanx chat: %s\n",
               PlainWords(status, address).c_str());
  return 1;
}

// What Ctrl-C does.
class Interruptible {
 public:
  // `keeps_on`: with no answer to stop, the conversation goes on.
  explicit Interruptible(bool keeps_on) : keeps_on_(keeps_on) {}

  void Watch(Conversation* conversation) {
    MutexLock lock(mutex_);
    conversation_ = conversation;
  }

  void OnInterrupt() {
    MutexLock lock(mutex_);
    if (conversation_ != nullptr && (conversation_->Cancel() || keeps_on_))
      return;
    _exit(kInterruptedExitCode);
  }

 private:
  const bool keeps_on_;
  Mutex mutex_;
  Conversation* conversation_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// The answers to one question on the screen; where there are several, each
// below its number.
class Answers {
 public:
  explicit Answers(bool labels) : labels_(labels) {}

  void Show(const v1::GenerateEvent& event) {
    if (event.has_notice()) TellNotice(event.notice());
    if (event.has_delta()) {
      Begin(event.delta().index());
      Write(view_.Add(event.delta()));
    }
    if (event.has_finished()) {
      Begin(event.finished().index());
      reason_ = event.finished().reason();
    }
    if (event.has_summary()) timings_ = view_.Timings(event.summary(), reason_);
  }

  // With `with_timings` also where that is no terminal.
  void End(bool with_timings) {
    Write(absl::StrCat(view_.End(), terminal_ || with_timings ? timings_ : ""));
  }

 private:
  void Begin(int choice) {
    if (!labels_ || choice == choice_) return;
    Write(absl::StrCat(view_.End(), choice_ < 0 ? "" : "\n", "[", choice + 1,
                       "]\n"));
    choice_ = choice;
    view_ = AnswerView(terminal_, HasColor());
  }

  // On a terminal the line that is under way ends first.
  void TellNotice(const v1::Notice& notice) {
    if (terminal_) Write(view_.End());
    std::fprintf(stderr, "phalanx chat: %s\n", NoticeWords(notice).c_str());
  }

  const bool terminal_ = isatty(STDOUT_FILENO) == 1;
  const bool labels_;
  int choice_ = -1;
  AnswerView view_{terminal_, HasColor()};
  v1::FinishReason reason_ = v1::FINISH_REASON_UNSPECIFIED;
  std::string timings_;
};

absl::Status AskAndShow(Conversation& conversation, const std::string& question,
                        bool with_timings) {
  Answers answers(conversation.request().n() > 1);
  ChoiceOrder order([&](const v1::GenerateEvent& e) { answers.Show(e); });
  const absl::Status status = conversation.Ask(
      question, [&](const v1::GenerateEvent& event) { order.Add(event); });
  order.End();
  answers.End(with_timings);
  return status;
}

// A line without its end; nothing at the end of the input, or where a line has
// no end within the bound.
std::optional<std::string> ReadLine(std::istream& in) {
  std::string line;
  for (int c; (c = in.get()) != std::char_traits<char>::eof();) {
    if (c == '\n') return line;
    line.push_back(static_cast<char>(c));
    if (line.size() > kMaxMessageBytes) return std::nullopt;
  }
  if (line.empty()) return std::nullopt;
  return line;
}

int AnswerOne(Conversation& conversation, const std::string& question,
              const std::string& address, bool with_timings) {
  const absl::Status status = AskAndShow(conversation, question, with_timings);
  if (conversation.cancelled()) return kInterruptedExitCode;
  return status.ok() ? 0 : Tell(status, address);
}

int AnswerLines(Conversation& conversation, const std::string& address,
                bool with_timings) {
  while (const auto line = ReadLine(std::cin)) {
    if (line->empty()) continue;
    const int code = AnswerOne(conversation, *line, address, with_timings);
    if (code != 0) return code;
  }
  return 0;
}

// Where a conversation is drawn, even when its answers go to a file.
FILE* Screen() { return isatty(STDOUT_FILENO) == 1 ? stdout : stderr; }

absl::Status Greet(v1::Inference::Stub& stub, const std::string& address) {
  grpc::ClientContext context;
  v1::GetModelResponse model;
  const absl::Status status = FromGrpc(stub.GetModel(&context, {}, &model));
  if (status.ok())
    std::fprintf(Screen(),
                 "%s at %s. Ctrl-C stops an answer, /new starts over, Ctrl-D "
                 "ends.\n",
                 model.name().c_str(), address.c_str());
  return status;
}

int Converse(Conversation& conversation, const std::string& address) {
  FILE* const screen = Screen();
  LineEditor editor(screen);
  while (const auto line = editor.Read()) {
    if (line->empty()) continue;
    if (*line == "/new") {
      conversation.StartOver();
      continue;
    }
    const absl::Status status =
        AskAndShow(conversation, *line, /*with_timings=*/false);
    if (conversation.cancelled())
      std::fputs("(stopped)\n", screen);
    else if (!status.ok())
      Tell(status, address);
  }
  std::fputs("\n", screen);
  return 0;
}

}  // namespace

void AddChatFlags(CLI::App& verb, ChatOptions& o) {
  CLI::Option* const message = verb.add_option(
      "message", o.message, "One question; without it a conversation begins");
  AddSamplingFlags(verb, o.common);
  // A conversation goes on from one answer.
  verb.get_option("--choices")->needs(message);
  verb.add_option("--system", o.system, "What the model is told beforehand");
  verb.add_flag("--no-thinking", o.no_thinking, "Answer without reasoning");
  verb.add_flag("--timings", o.timings,
                "Say tokens and times after each answer, also where the output "
                "is no terminal");
  verb.footer(
      "In a conversation Ctrl-C stops the answer that is coming, or drops what "
      "was\ntyped; /new starts over; Ctrl-D ends.\n"
      "Examples:\n"
      "  phalanx chat 'What is the capital of France?'\n"
      "  phalanx chat --no-thinking --temperature 0 'What is 2 + 3?'\n"
      "  printf 'What is 2 + 3?\\nAnd 4 + 4?\\n' | phalanx chat");
}

int RunChat(const ChatOptions& options) {
  const auto address = FindAddress(options.common.address);
  if (!address.ok()) return Tell(address.status(), "");
  const bool interactive =
      !options.message && isatty(STDIN_FILENO) == 1 &&
      (isatty(STDOUT_FILENO) == 1 || isatty(STDERR_FILENO) == 1);
  Interruptible interruptible(/*keeps_on=*/interactive);
  Interrupt interrupt([&] { interruptible.OnInterrupt(); });
  const auto stub = v1::Inference::NewStub(ChannelTo(*address));
  Conversation conversation(*stub, FirstRequest(options));
  if (interactive) {
    const absl::Status greeted = Greet(*stub, *address);
    if (!greeted.ok()) return Tell(greeted, *address);
  }
  interruptible.Watch(&conversation);
  const int code =
      options.message
          ? AnswerOne(conversation, *options.message, *address, options.timings)
      : interactive ? Converse(conversation, *address)
                    : AnswerLines(conversation, *address, options.timings);
  interruptible.Watch(nullptr);
  return code;
}

}  // namespace phalanx
