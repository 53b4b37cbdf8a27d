#include "worker/collective/shm_formation.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/clock.h"
#include "common/status.h"
#include "worker/collective/loss.h"
#include "worker/collective/shm_steps.h"

namespace phalanx {
namespace {

constexpr double kMaxTimeoutSeconds = 24 * 3600;
constexpr auto kPollInterval = std::chrono::milliseconds(1);

absl::Status CheckConfig(const ShmConfig& config) {
  RETURN_IF_ERROR(CheckSegmentName(config.name));
  if (!IsGroupSize(config.size))
    return absl::InvalidArgumentError(absl::StrCat(
        "size is ", config.size, "; must be 1, 2, 4, 8 or ", kMaxRanks));
  if (config.rank < 0 || config.rank >= config.size)
    return absl::InvalidArgumentError(absl::StrCat(
        "rank is ", config.rank, "; must be 0..", config.size - 1));
  if (config.slot_bytes < kMinSlotBytes || config.slot_bytes > kMaxSlotBytes ||
      config.slot_bytes % kLineBytes != 0)
    return absl::InvalidArgumentError(absl::StrCat(
        "slot_bytes is ", config.slot_bytes, "; must be a multiple of ",
        kLineBytes, " in ", kMinSlotBytes, "..", kMaxSlotBytes));
  if (!(config.timeout_seconds > 0) ||
      config.timeout_seconds > kMaxTimeoutSeconds)
    return absl::InvalidArgumentError(
        absl::StrCat("timeout_seconds is ", config.timeout_seconds,
                     "; must be above 0 and at most ", kMaxTimeoutSeconds));
  return absl::OkStatus();
}

// One rank's part in the forming of one group.
class Formation {
 public:
  explicit Formation(const ShmConfig& config)
      : config_(config),
        end_seconds_(clock_.now_seconds() + config.timeout_seconds) {}

  absl::StatusOr<FormedGroup> Run() {
    RETURN_IF_ERROR(GetSegment());
    RETURN_IF_ERROR(Claim());
    // From here on the others count on us, and we answer for the name.
    group_.segment->set_answers_for_name(true);
    const absl::Status met = MeetAll();
    if (!met.ok()) {
      EndGroup(*group_.segment, config_.rank,
               LossOf(met, config_.rank, config_.size));
      return met;
    }
    return std::move(group_);
  }

 private:
  absl::Status CalledOff() const {
    return config_.called_off == nullptr ? absl::OkStatus()
                                         : config_.called_off();
  }
  bool TimeIsUp() const { return clock_.now_seconds() >= end_seconds_; }

  absl::Status Lost(int rank, absl::string_view cause) const {
    return LossError(config_.epoch, {rank, std::string(cause)});
  }

  absl::Status GetSegment() {
    const ShmSegment::Shape shape{.size = config_.size,
                                  .epoch = config_.epoch,
                                  .slot_bytes = config_.slot_bytes};
    if (config_.rank == 0) {
      ASSIGN_OR_RETURN(group_.segment, ShmSegment::Create(config_.name, shape));
      return absl::OkStatus();
    }
    while (true) {
      absl::StatusOr<std::unique_ptr<ShmSegment>> opened =
          ShmSegment::Open(config_.name, shape);
      if (opened.ok()) {
        group_.segment = *std::move(opened);
        return absl::OkStatus();
      }
      if (!absl::IsUnavailable(opened.status())) return opened.status();
      RETURN_IF_ERROR(CalledOff());
      if (TimeIsUp()) {
        // Perhaps rank 0 died between making and filling it.
        RemoveSegmentName(config_.name);
        return Lost(
            0, absl::StrCat("did not come within ", config_.timeout_seconds,
                            " s: ", opened.status().message()));
      }
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  absl::Status Claim() {
    RankRecord& record = group_.segment->record(config_.rank);
    int32_t free = 0;
    if (!record.claimed.compare_exchange_strong(free, 1))
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", config_.rank, " of segment ", config_.name, " is taken"));
    const ProcessId own = OwnProcessId();
    record.pid = own.pid;
    record.start_ticks = own.start_ticks;
    record.claimed.store(2);
    return absl::OkStatus();
  }

  absl::Status MeetAll() {
    SegmentHeader& header = group_.segment->header();
    while (true) {
      const bool formed = header.formed.load() != 0;
      int missing = -1;
      RETURN_IF_ERROR(WatchThoseHere(missing));
      if (missing < 0 && config_.rank == 0) {
        group_.segment->Unlink();
        header.formed.store(1);
        return absl::OkStatus();
      }
      if (missing < 0 && formed) {
        group_.segment->set_answers_for_name(false);
        return absl::OkStatus();
      }
      if (header.over.load() != 0) return GroupStatus(*group_.segment);
      RETURN_IF_ERROR(CalledOff());
      if (const int dead = group_.peers->FirstDead(); dead >= 0)
        return Lost(dead, "its process has ended");
      if (TimeIsUp())
        return Lost(std::max(missing, 0),
                    absl::StrCat("did not come within ",
                                 config_.timeout_seconds, " s"));
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  // Watches every rank that has claimed its record; `missing` becomes the
  // lowest that has not.
  absl::Status WatchThoseHere(int& missing) {
    for (int r = config_.size - 1; r >= 0; --r) {
      if (r == config_.rank || group_.peers->watches(r)) continue;
      const RankRecord& record = group_.segment->record(r);
      if (record.claimed.load() != 2) {
        missing = r;
        continue;
      }
      const absl::Status added = group_.peers->Add(
          r, {.pid = record.pid, .start_ticks = record.start_ticks});
      if (!added.ok()) return Lost(r, added.message());
    }
    return absl::OkStatus();
  }

  const ShmConfig& config_;
  const MonotonicClock clock_;
  const double end_seconds_;
  FormedGroup group_{.segment = nullptr,
                     .peers = std::make_unique<PeerWatch>()};
};

}  // namespace

absl::StatusOr<FormedGroup> FormShmGroup(const ShmConfig& config) {
  RETURN_IF_ERROR(CheckConfig(config));
  return Formation(config).Run();
}

}  // namespace phalanx
