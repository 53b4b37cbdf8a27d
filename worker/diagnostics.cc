#include "worker/diagnostics.h"

#include <unistd.h>

#include <utility>

#include "nlohmann/json.hpp"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

const char* StateName(WorkerState state) {
  switch (state) {
    case WorkerState::kLoading:
      return "loading";
    case WorkerState::kForming:
      return "forming";
    case WorkerState::kWarming:
      return "warming";
    case WorkerState::kReady:
      return "ready";
    case WorkerState::kDraining:
      return "draining";
    case WorkerState::kFailed:
      return "failed";
  }
  return "";
}

Json CountsJson(const SchedulerCounts& counts) {
  return {{"running", counts.running},
          {"waiting", counts.waiting},
          {"oldest_wait_seconds", counts.oldest_wait_seconds},
          {"kv_blocks_used", counts.kv_blocks_used},
          {"kv_blocks_reusable", counts.kv_blocks_reusable},
          {"kv_blocks_total", counts.kv_blocks_total},
          {"state_slots_used", counts.state_slots_used},
          {"state_slots_snapshot", counts.state_slots_snapshot},
          {"state_slots_total", counts.state_slots_total},
          {"preempted_for_kv", counts.preempted_for_kv},
          {"preempted_for_state", counts.preempted_for_state},
          {"preempted_for_priority", counts.preempted_for_priority}};
}

Json MemoryJson(const Backend& backend) {
  Json memory;
  for (int i = 0; i < kMemoryCategories; ++i)
    memory[kMemoryCategoryNames[i]] =
        backend.allocated_bytes_of(static_cast<MemoryCategory>(i));
  return memory;
}

}  // namespace

std::string DiagnosticsJson(const RankView& view) {
  const WorkerSnapshot& now = view.now;
  const size_t state = static_cast<size_t>(now.state);
  Json all = {{"event", "diagnostics"},
              {"rank", view.rank},
              {"pid", getpid()},
              {"state", StateName(now.state)},
              {"state_seconds", now.state_seconds[state]},
              {"detail", now.detail},
              {"load_progress", now.load_progress},
              {"epoch", now.epoch},
              {"steps", now.steps},
              {"step_age_seconds", view.step_age_seconds},
              {"active_requests", view.active_requests},
              {"counts", CountsJson(now.counts)}};
  if (view.backend != nullptr) all["memory_bytes"] = MemoryJson(*view.backend);
  // A message of the world may hold anything; a dump must not fail for it.
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Diagnostics::Set(std::function<RankView()> look) {
  MutexLock lock(mutex_);
  look_ = std::move(look);
}

void Diagnostics::Forget() { Set(nullptr); }

void Diagnostics::Write() {
  std::string line = R"({"event":"diagnostics","state":"starting"})";
  {
    MutexLock lock(mutex_);
    if (look_ != nullptr) line = DiagnosticsJson(look_());
  }
  line.push_back('\n');
  [[maybe_unused]] const ssize_t n =
      write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace phalanx
