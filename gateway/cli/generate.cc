#include "gateway/cli/generate.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/status.h"
#include "gateway/cli/choice_order.h"
#include "gateway/cli/client.h"
#include "gateway/cli/event_json.h"
#include "gateway/cli/interrupt.h"

namespace phalanx {
namespace {

// What the gateway takes in one message.
constexpr size_t kMaxPromptBytes = size_t{32} << 20;

absl::StatusOr<std::string> ReadPrompt(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file)
      return absl::NotFoundError(
          absl::StrCat("--prompt-file is ", path, "; it cannot be opened"));
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text(kMaxPromptBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(in.gcount());
  if (in.bad() || (text.empty() && !in.eof()))
    return absl::NotFoundError(
        absl::StrCat("--prompt-file is ", path, "; it cannot be read"));
  if (text.size() > kMaxPromptBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-file is ", path, "; it must be at most ",
                     kMaxPromptBytes, " bytes long"));
  return text;
}

absl::StatusOr<v1::GenerateRequest> MakeRequest(const GenerateOptions& o) {
  v1::GenerateRequest request;
  if (o.prompt) {
    request.set_text(*o.prompt);
  } else if (o.prompt_file) {
    ASSIGN_OR_RETURN(*request.mutable_text(), ReadPrompt(*o.prompt_file));
  } else {
    request.mutable_token_ids()->mutable_ids()->Add(o.token_ids.begin(),
                                                    o.token_ids.end());
  }
  FillRequest(o.common, request);
  v1::Output& output = *request.mutable_output();
  if (o.logprobs) {
    output.set_logprobs(true);
    output.set_top_n(*o.logprobs);
  }
  if (o.prompt_logprobs) output.set_prompt_logprobs(true);
  if (o.echo) output.set_echo(true);
  return request;
}

// Answers on stdout: text, or where the model has none ids with commas, so that
// --token-ids takes them. Where there are several, each below its number.
class Printer {
 public:
  Printer(bool text, bool labels) : text_(text), labels_(labels) {}

  void Print(const v1::GenerateEvent& event) {
    if (event.has_notice()) TellNotice(event.notice());
    if (event.has_prompt())
      Write(event.prompt().text(), event.prompt().token_ids());
    if (event.has_delta()) {
      Label(event.delta().index());
      Write(event.delta().text(), event.delta().token_ids());
    }
    if (event.has_finished()) Label(event.finished().index());
    std::fflush(stdout);
  }

  // Whatever happened: the shell's prompt begins a line.
  void End() {
    if (in_line_) Put("\n");
    std::fflush(stdout);
  }

 private:
  void Label(int choice) {
    if (!labels_ || choice == labelled_) return;
    labelled_ = choice;
    Put(absl::StrCat(in_line_ ? "\n" : "", wrote_ ? "\n" : "", "[", choice + 1,
                     "]\n"));
    in_line_ = false;
  }

  void Write(const std::string& text,
             const google::protobuf::RepeatedField<int32_t>& ids) {
    if (text_) return Put(text);
    for (const int32_t id : ids) Put(absl::StrCat(in_line_ ? "," : "", id));
  }

  void Put(const std::string& text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    wrote_ = in_line_ = true;
  }

  // On a terminal the line that is under way ends first.
  void TellNotice(const v1::Notice& notice) {
    if (in_line_ && isatty(STDOUT_FILENO) == 1) End();
    std::fprintf(stderr, "phalanx generate: %s\n", NoticeWords(notice).c_str());
  }

  const bool text_;
  const bool labels_;
  int labelled_ = -1;
  bool wrote_ = false;
  bool in_line_ = false;  // Something stands in the last line.
};

// Does the model answer in text? Asked only where it matters.
absl::StatusOr<bool> HasText(v1::Inference::Stub& stub,
                             grpc::ClientContext& context) {
  v1::GetModelResponse model;
  const absl::Status status = FromGrpc(stub.GetModel(&context, {}, &model));
  if (!status.ok()) return status;
  return model.has_tokenizer();
}

absl::Status Generate(const GenerateOptions& options,
                      grpc::ClientContext& ask_context,
                      grpc::ClientContext& context) {
  ASSIGN_OR_RETURN(const v1::GenerateRequest request, MakeRequest(options));
  ASSIGN_OR_RETURN(const std::string address,
                   FindAddress(options.common.address));
  const auto stub = v1::Inference::NewStub(ChannelTo(address));
  v1::GenerateEvent event;
  if (options.json) {
    const auto stream = stub->Generate(&context, request);
    while (stream->Read(&event)) {
      std::printf("%s\n", EventJson(event).c_str());
      std::fflush(stdout);
    }
    return FromGrpc(stream->Finish());
  }
  ASSIGN_OR_RETURN(const bool text, HasText(*stub, ask_context));
  Printer printer(text, request.n() > 1);
  ChoiceOrder order([&](const v1::GenerateEvent& e) { printer.Print(e); });
  const auto stream = stub->Generate(&context, request);
  while (stream->Read(&event)) order.Add(event);
  order.End();
  printer.End();
  return FromGrpc(stream->Finish());
}

}  // namespace

void AddGenerateFlags(CLI::App& verb, GenerateOptions& o) {
  auto* prompt = verb.add_option_group("Prompt", "Exactly one of these");
  prompt->add_option("--prompt", o.prompt,
                     "Raw text; the model's added tokens in it are recognised");
  prompt->add_option("--prompt-file", o.prompt_file,
                     "The same from a file; - is standard input");
  prompt->add_option("--token-ids", o.token_ids, "Token ids, comma-separated")
      ->delimiter(',')
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()));
  prompt->require_option(1);
  AddSamplingFlags(verb, o.common);
  verb.add_option("--logprobs", o.logprobs,
                  "Log-probabilities of the tokens and of the N most likely; "
                  "seen with --json")
      ->check(CLI::Range(0, 20));
  verb.add_flag("--prompt-logprobs", o.prompt_logprobs,
                "Those of the prompt's tokens; seen with --json");
  verb.add_flag("--echo", o.echo,
                "Print the prompt too; with it, or with --prompt-logprobs, "
                "--max-tokens may be 0");
  verb.add_flag("--json", o.json,
                "One JSON object per event: accepted, prompt, delta, notice, "
                "finished, summary");
  verb.footer(
      "Examples:\n"
      "  phalanx generate --prompt 'Once upon a time' --max-tokens 40\n"
      "  phalanx generate --prompt 'Once' -n 3 --temperature 1 --stop .\n"
      "  phalanx generate --token-ids 1,2,3 --logprobs 5 --json | jq .delta");
}

int RunGenerate(const GenerateOptions& options) {
  grpc::ClientContext ask_context;
  grpc::ClientContext context;
  std::atomic<bool> interrupted{false};
  Interrupt interrupt([&] {
    if (interrupted.exchange(true)) _exit(kInterruptedExitCode);
    ask_context.TryCancel();
    context.TryCancel();
  });
  const absl::Status status = Generate(options, ask_context, context);
  if (interrupted.load()) return kInterruptedExitCode;
  return status.ok() ? 0 : Fail("generate", status);
}

}  // namespace phalanx
