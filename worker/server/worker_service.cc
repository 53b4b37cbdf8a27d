#include "worker/server/worker_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/reason.h"
#include "worker/server/convert.h"
#include "worker/server/token_writer.h"

namespace phalanx {
namespace {

absl::Status NotRankZero(const char* call) {
  return ReasonedError(absl::StatusCode::kFailedPrecondition, "WRONG_STATE",
                       absl::StrCat(call, " is served by rank 0 only"));
}

absl::Status StaleEpoch(uint64_t asked, uint64_t now) {
  return ReasonedError(
      absl::StatusCode::kFailedPrecondition, "STALE_EPOCH",
      absl::StrCat("epoch is ", asked, "; the group's is ", now),
      {{"epoch", absl::StrCat(now)}, {"actual", absl::StrCat(asked)}});
}

v1::RankState ToProto(WorkerState state) {
  switch (state) {
    case WorkerState::kLoading:
      return v1::RANK_STATE_LOADING;
    case WorkerState::kForming:
      return v1::RANK_STATE_FORMING;
    case WorkerState::kWarming:
      return v1::RANK_STATE_WARMING;
    case WorkerState::kReady:
      return v1::RANK_STATE_READY;
    case WorkerState::kDraining:
      return v1::RANK_STATE_DRAINING;
    case WorkerState::kFailed:
      return v1::RANK_STATE_FAILED;
  }
  return v1::RANK_STATE_UNSPECIFIED;
}

v1::ExpertCacheUse ToProto(const ExpertCacheCounters& counters) {
  v1::ExpertCacheUse use;
  use.set_slots(counters.slots);
  use.set_slots_used(counters.slots_used);
  use.set_hits(counters.hits);
  use.set_fetches(counters.fetches);
  use.set_fetched_bytes(counters.fetched_bytes);
  return use;
}

void ShowCounts(const SchedulerCounts& counts, v1::WorkerStatus& status) {
  // Of the group, once there is one: the smallest offer of its ranks.
  if (counts.kv_blocks_total > 0)
    status.set_kv_blocks_total(counts.kv_blocks_total);
  if (counts.state_slots_total > 0)
    status.set_state_slots_total(counts.state_slots_total);
  status.set_kv_blocks_used(counts.kv_blocks_used);
  status.set_kv_blocks_reusable(counts.kv_blocks_reusable);
  status.set_state_slots_used(counts.state_slots_used);
  status.set_state_slots_snapshot(counts.state_slots_snapshot);
  status.set_requests_running(counts.running);
  status.set_requests_waiting(counts.waiting);
  status.set_oldest_wait_seconds(counts.oldest_wait_seconds);
  status.set_preempted_for_kv(counts.preempted_for_kv);
  status.set_preempted_for_state(counts.preempted_for_state);
  status.set_preempted_for_priority(counts.preempted_for_priority);
  status.set_prefix_queried_tokens(counts.prefix_queried_tokens);
  status.set_prefix_hit_tokens(counts.prefix_hit_tokens);
}

}  // namespace

void WorkerService::Describe(const v1::WorkerStatus& facts) {
  MutexLock lock(mutex_);
  facts_ = facts;
}

void WorkerService::ShowExperts(std::function<ExpertCacheCounters()> counters) {
  MutexLock lock(mutex_);
  experts_ = std::move(counters);
}

grpc::ServerWriteReactor<v1::WorkerGenerateEvent>* WorkerService::Generate(
    grpc::CallbackServerContext*, const v1::WorkerGenerateRequest* request) {
  // Deletes itself.
  auto* writer = new TokenWriter(request->epoch(), inbox_);
  const absl::Status status = inbox_ == nullptr
                                  ? NotRankZero("Generate")
                                  : inbox_->Submit(FromProto(*request), writer);
  if (!status.ok()) writer->Close(status);
  return writer;
}

grpc::ServerUnaryReactor* WorkerService::Cancel(
    grpc::CallbackServerContext* context,
    const v1::WorkerCancelRequest* request,
    v1::WorkerCancelResponse* response) {
  auto* reactor = context->DefaultReactor();
  const uint64_t epoch = board_.Read().epoch;
  absl::Status status;
  if (inbox_ == nullptr) {
    status = NotRankZero("Cancel");
  } else if (request->epoch() != epoch) {
    status = StaleEpoch(request->epoch(), epoch);
  } else {
    response->set_epoch(epoch);
    response->set_found(inbox_->Cancel(request->request_id()));
  }
  reactor->Finish(ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* WorkerService::GetStatus(
    grpc::CallbackServerContext* context,
    const v1::WorkerStatusRequest* request, v1::WorkerStatus* response) {
  auto* reactor = context->DefaultReactor();
  const WorkerSnapshot now = board_.Read();
  if (request->epoch() != 0 && request->epoch() != now.epoch) {
    reactor->Finish(ToGrpc(StaleEpoch(request->epoch(), now.epoch)));
    return reactor;
  }
  {
    MutexLock lock(mutex_);
    *response = facts_;
    if (experts_ != nullptr)
      *response->mutable_expert_cache() = ToProto(experts_());
  }
  response->set_epoch(now.epoch);
  response->set_state(ToProto(now.state));
  response->set_detail(now.detail);
  response->set_load_progress(now.load_progress);
  response->set_load_total_bytes(now.load_total_bytes);
  response->set_steps(now.steps);
  response->set_warmup_logits_hash(now.warmup_logits_hash);
  ShowCounts(now.counts, *response);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace phalanx
