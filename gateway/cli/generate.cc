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
  v1::Sampling& sampling = *request.mutable_sampling();
  v1::Stopping& stopping = *request.mutable_stopping();
  FillSampling(o.common, sampling, stopping);
  if (o.top_k) sampling.set_top_k(*o.top_k);
  if (o.top_p) sampling.set_top_p(static_cast<float>(*o.top_p));
  if (o.min_p) sampling.set_min_p(static_cast<float>(*o.min_p));
  for (const std::string& stop : o.stop) stopping.add_stop_strings(stop);
  if (o.ignore_eos) stopping.set_ignore_eos(true);
  if (o.logprobs) {
    request.mutable_output()->set_logprobs(true);
    request.mutable_output()->set_top_n(*o.logprobs);
  }
  return request;
}

// One answer on stdout. Text, or where the model has none ids with commas, so
// that --token-ids takes them.
class Printer {
 public:
  explicit Printer(bool json) : json_(json) {}

  void Print(const v1::GenerateEvent& event) {
    if (json_)
      Write(absl::StrCat(EventJson(event), "\n"));
    else if (event.has_delta())
      Write(event.delta().text());
    std::fflush(stdout);
  }

  void PrintIds(const v1::GenerateEvent& event) {
    for (const int32_t id : event.delta().token_ids())
      Write(absl::StrCat(wrote_ ? "," : "", id));
    std::fflush(stdout);
  }

  // Whatever happened: the shell's prompt begins a line.
  void End() {
    if (!json_ && wrote_) Write("\n");
    std::fflush(stdout);
  }

 private:
  void Write(const std::string& text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    wrote_ = true;
  }

  const bool json_;
  bool wrote_ = false;
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
  bool text = true;
  if (!options.json) {
    ASSIGN_OR_RETURN(text, HasText(*stub, ask_context));
  }
  Printer printer(options.json);
  const auto stream = stub->Generate(&context, request);
  v1::GenerateEvent event;
  while (stream->Read(&event)) {
    if (text)
      printer.Print(event);
    else
      printer.PrintIds(event);
  }
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
  verb.add_option("--top-k", o.top_k, "Draw from the K most likely; 0: all")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()));
  verb.add_option("--top-p", o.top_p,
                  "Draw from the most likely that make up this share")
      ->check(NumberIn(0, 1, /*above_low=*/true));
  verb.add_option("--min-p", o.min_p,
                  "Drop what is less likely than this share of the likeliest")
      ->check(NumberIn(0, 1));
  verb.add_option("--logprobs", o.logprobs,
                  "Log-probabilities of the tokens and of the N most likely; "
                  "seen with --json")
      ->check(CLI::Range(0, 20));
  verb.add_option("--stop", o.stop, "Text that ends the answer; repeatable")
      ->allow_extra_args(false);
  verb.add_flag("--ignore-eos", o.ignore_eos,
                "The model's own end does not end the answer");
  verb.add_flag("--json", o.json,
                "One JSON object per event: accepted, delta, notice, finished, "
                "summary");
  verb.footer(
      "Examples:\n"
      "  phalanx generate --prompt 'Once upon a time' --max-tokens 40\n"
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
