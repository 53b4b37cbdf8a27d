#include "gateway/cli/service_check.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "admin.grpc.pb.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/reason.h"
#include "inference.grpc.pb.h"
#include "tests/support/status_matchers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Outcome = CheckResult::Outcome;

// A gateway on a free port that does everything right but for what a test asks
// of it. A request of more than 8 tokens runs until it is cancelled.
class PlayedGateway final : public v1::Inference::Service,
                            public v1::Admin::Service {
 public:
  PlayedGateway() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(static_cast<v1::Inference::Service*>(this));
    builder.RegisterService(static_cast<v1::Admin::Service*>(this));
    server_ = builder.BuildAndStart();
    address = absl::StrCat("127.0.0.1:", port);
  }
  ~PlayedGateway() override { server_->Shutdown(); }

  void StopServing() {
    server_->GetHealthCheckService()->SetServingStatus("", false);
  }

  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*,
                        v1::GetModelResponse* response) override {
    response->set_name("played");
    response->set_has_tokenizer(has_tokenizer);
    response->set_max_model_len(8192);
    return grpc::Status::OK;
  }

  grpc::Status Generate(
      grpc::ServerContext* context, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    MutexLock lock(mutex_);
    asked.push_back(*request);
    const int64_t tokens = request->stopping().max_tokens();
    if (tokens > fits_tokens)
      return ToGrpc(ReasonedError(absl::StatusCode::kInvalidArgument,
                                  "NEVER_FITS", "too long"));
    return tokens <= 8 ? AnswerShort(*writer)
                       : AnswerLong(*context, request->request_id(), *writer);
  }

  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelRequest* request,
                      v1::CancelResponse* response) override {
    MutexLock lock(mutex_);
    for (const std::string& id : request->request_ids()) {
      if (running_.contains(id)) {
        cancelled_.insert(id);
        response->set_cancelled(response->cancelled() + 1);
      } else {
        response->add_not_found(id);
      }
    }
    cancels_.SignalAll();
    return grpc::Status::OK;
  }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    MutexLock lock(mutex_);
    response->set_requests_running(
        others + (counts ? static_cast<int64_t>(running_.size()) : 0) +
        (leaks ? static_cast<int64_t>(cancelled_.size()) : 0));
    return grpc::Status::OK;
  }

  // Whether no request runs any more, however it ended.
  bool Idle() {
    MutexLock lock(mutex_);
    return running_.empty();
  }

  // Set before the checks run.
  std::string address;
  bool has_tokenizer = true;
  int answer_tokens = 8;
  absl::Status answer_end;
  int64_t fits_tokens = std::numeric_limits<int64_t>::max();
  bool waits = true;  // For the cancel.
  absl::Status cancelled_end =
      ReasonedError(absl::StatusCode::kCancelled, "CLIENT", "as asked");
  bool forgets = true;  // What was cancelled.
  int64_t others = 0;   // Requests of others that run.
  bool counts = true;   // Requests that run.
  bool leaks = false;   // Counts what was cancelled for ever.

  std::vector<v1::GenerateRequest> asked;  // Read when they are over.

 private:
  grpc::Status AnswerShort(grpc::ServerWriter<v1::GenerateEvent>& writer) {
    v1::GenerateEvent event;
    for (int i = 0; i < answer_tokens; ++i) {
      event.mutable_delta()->mutable_token_ids()->Clear();
      event.mutable_delta()->add_token_ids(i);
      writer.Write(event);
    }
    event.mutable_summary()->set_time_to_first_token_seconds(0.25);
    if (answer_end.ok()) writer.Write(event);
    return ToGrpc(answer_end);
  }

  grpc::Status AnswerLong(grpc::ServerContext& context, const std::string& id,
                          grpc::ServerWriter<v1::GenerateEvent>& writer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    running_.insert(id);
    v1::GenerateEvent event;
    event.mutable_delta()->add_token_ids(1);
    writer.Write(event);
    while (waits && !context.IsCancelled() &&
           !cancels_.WaitFor(mutex_, std::chrono::milliseconds(10),
                             [&] { return cancelled_.contains(id); })) {
    }
    if (forgets) running_.erase(id);
    return waits ? ToGrpc(cancelled_end) : grpc::Status::OK;
  }

  Mutex mutex_;
  CondVar cancels_;
  std::set<std::string> running_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

class ServiceCheck : public testing::Test {
 protected:
  // All three results; the first that is not well, or the last.
  CheckResult Check() {
    results_.clear();
    well_ = CheckService(
        {.address = gateway_.address,
         .admin_address = admin_ ? gateway_.address : "",
         .timeout_seconds = timeout_seconds_},
        clock_, [&](const CheckResult& result) { results_.push_back(result); });
    for (const CheckResult& result : results_)
      if (result.outcome != Outcome::kOk) return result;
    return results_.back();
  }

  std::vector<std::string> Words() const {
    std::vector<std::string> words;
    for (const CheckResult& result : results_)
      words.push_back(absl::StrCat(
          result.name, result.outcome == Outcome::kOk       ? " ok"
                       : result.outcome == Outcome::kFailed ? " failed"
                                                            : " skipped"));
    return words;
  }

  MonotonicClock clock_;
  PlayedGateway gateway_;
  bool admin_ = true;
  double timeout_seconds_ = 20;
  std::vector<CheckResult> results_;
  bool well_ = false;
};

TEST_F(ServiceCheck, IsWellWhereAllIs) {
  const CheckResult last = Check();

  EXPECT_TRUE(well_) << last.detail;
  EXPECT_THAT(Words(), ElementsAre("health ok", "generation ok", "cancel ok"));
  EXPECT_EQ(results_[1].detail, "played: 8 tokens, first after 250 ms");
  EXPECT_THAT(last.detail, StartsWith("CANCELLED/CLIENT after 1 token, in "));
  EXPECT_THAT(last.detail, HasSubstr("requests running: 0, 1, 0"));
}

TEST_F(ServiceCheck, AsksForTextWhereTheModelHasSome) {
  Check();

  EXPECT_FALSE(gateway_.asked[0].text().empty());
}

TEST_F(ServiceCheck, AsksWithIdsWhereTheModelHasNoText) {
  gateway_.has_tokenizer = false;

  Check();

  EXPECT_TRUE(well_);
  EXPECT_EQ(gateway_.asked[0].token_ids().ids_size(), 1);
}

TEST_F(ServiceCheck, SaysWhereNobodyAnswers) {
  gateway_.address = "127.0.0.1:1";

  const CheckResult health = Check();

  EXPECT_FALSE(well_);
  EXPECT_THAT(health.detail, StartsWith("no service answers at 127.0.0.1:1: "));
  EXPECT_THAT(Words(), ElementsAre("health failed", "generation skipped",
                                   "cancel skipped"));
}

TEST_F(ServiceCheck, SaysThatAServiceIsNotServing) {
  gateway_.StopServing();

  const CheckResult health = Check();

  EXPECT_FALSE(well_);
  EXPECT_THAT(health.detail, StartsWith("the service says NOT_SERVING; "));
}

TEST_F(ServiceCheck, TellsHowAGenerationEnded) {
  gateway_.answer_end = ReasonedError(absl::StatusCode::kUnavailable,
                                      "GROUP_LOST", "rank 1 is gone");

  const CheckResult generation = Check();

  EXPECT_FALSE(well_);
  EXPECT_EQ(generation.detail, "UNAVAILABLE/GROUP_LOST: rank 1 is gone");
  EXPECT_THAT(Words(),
              ElementsAre("health ok", "generation failed", "cancel skipped"));
}

TEST_F(ServiceCheck, CountsTheTokensOfAnAnswer) {
  gateway_.answer_tokens = 7;

  EXPECT_EQ(Check().detail,
            "the answer has 7 tokens and a summary; asked for 8");
  EXPECT_FALSE(well_);
}

TEST_F(ServiceCheck, FindsAStreamThatIsNotStopped) {
  gateway_.waits = false;

  const CheckResult cancel = Check();

  EXPECT_FALSE(well_);
  EXPECT_EQ(cancel.name, "cancel");
}

TEST_F(ServiceCheck, FindsAStreamThatEndsInAnotherWay) {
  gateway_.cancelled_end =
      ReasonedError(absl::StatusCode::kCancelled, "DISCONNECTED", "gone");

  EXPECT_EQ(Check().detail,
            "the stream ended CANCELLED/DISCONNECTED after 1 tokens (gone); "
            "must be CANCELLED/CLIENT");
  EXPECT_FALSE(well_);
}

TEST_F(ServiceCheck, FindsARequestThatIsStillHeld) {
  gateway_.forgets = false;
  timeout_seconds_ = 2;

  EXPECT_THAT(Check().detail, HasSubstr("still holds the request after 2 s"));
  EXPECT_FALSE(well_);
}

TEST_F(ServiceCheck, FindsARequestThatIsCountedForEver) {
  gateway_.leaks = true;
  timeout_seconds_ = 2;

  EXPECT_EQ(Check().detail, "requests_running is 1 after 2 s; it was 0 before");
  EXPECT_FALSE(well_);
}

TEST_F(ServiceCheck, FindsTheOperatorsPortOfAnotherGateway) {
  gateway_.counts = false;

  EXPECT_THAT(Check().detail, HasSubstr("must be the operators' port"));
  EXPECT_FALSE(well_);
  // What it had begun does not run on.
  while (!gateway_.Idle()) std::this_thread::yield();
}

TEST_F(ServiceCheck, IsNotDisturbedByRequestsOfOthers) {
  gateway_.others = 5;

  EXPECT_THAT(Check().detail, HasSubstr("requests running: 5, 6, 5"));
  EXPECT_TRUE(well_);
}

TEST_F(ServiceCheck, DoesWithoutTheOperatorsPort) {
  admin_ = false;

  EXPECT_THAT(Check().detail, HasSubstr("not seen without --admin-address"));
  EXPECT_TRUE(well_);
}

TEST_F(ServiceCheck, AsksForLessWhereTheCacheIsSmall) {
  gateway_.fits_tokens = 1000;

  Check();

  EXPECT_TRUE(well_);
  std::vector<int64_t> tokens;
  for (const v1::GenerateRequest& request : gateway_.asked)
    tokens.push_back(request.stopping().max_tokens());
  EXPECT_THAT(tokens, ElementsAre(8, 4096, 2048, 1024, 512));
}

}  // namespace
}  // namespace phalanx
