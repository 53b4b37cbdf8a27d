#ifndef PHALANX_TESTS_GATEWAY_API_SCRIPTED_ANSWER_H_
#define PHALANX_TESTS_GATEWAY_API_SCRIPTED_ANSWER_H_

// A model that always says the same, and what a client has of it: a stream that
// was disturbed must give what an undisturbed one gives.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "inference.pb.h"
#include "tests/gateway/router/fake_worker.h"
#include "worker.pb.h"

namespace phalanx {

class ScriptedAnswer {
 public:
  // One list of ids for each choice.
  explicit ScriptedAnswer(std::vector<std::vector<int32_t>> ids)
      : ids_(std::move(ids)) {}

  const std::vector<int32_t>& ids(int choice = 0) const { return ids_[choice]; }

  // To whoever asks: first what admission found, then the tokens behind the
  // ones that were emitted, one a message, each with the log-probability that
  // its place gives it, up to the `until`-th of the answer.
  void Write(const v1::WorkerGenerateRequest& request,
             FakeWorker::Writer& writer, size_t until) const;
  // All of it, and its end: STOP behind a stop id, else LENGTH.
  grpc::Status Run(const v1::WorkerGenerateRequest& request,
                   FakeWorker::Writer& writer) const;

 private:
  const std::vector<std::vector<int32_t>> ids_;
};

// What a client has of one choice.
struct ReceivedChoice {
  std::map<v1::Channel, std::string> text;
  std::vector<int32_t> ids;
  std::vector<std::pair<int32_t, float>> logprobs;
  std::string finished;  // As text; empty: not yet.

  bool operator==(const ReceivedChoice&) const = default;
};

// What a client has of a stream, or of several that make one.
struct Received {
  std::map<int, ReceivedChoice> choices;
  std::vector<v1::Notice> notices;
  std::string prompt;  // The event Prompt, as text.
  v1::Accepted accepted;
  v1::Summary summary;

  void Add(const std::vector<v1::GenerateEvent>& events);
};

// GROUP_LOST of epoch 7, as rank 0 says it: by rank 1, and whether the sequence
// was in the step.
grpc::Status GroupLost(bool in_step);

}  // namespace phalanx

#endif  // PHALANX_TESTS_GATEWAY_API_SCRIPTED_ANSWER_H_
