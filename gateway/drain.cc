#include "gateway/drain.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "common/log.h"

namespace phalanx {
namespace {

// A call that is on its way when the door shuts hears why; later ones are
// refused by the host and go elsewhere sooner.
constexpr double kRefusalSeconds = 2;
// What has ended may still have to be written, to a slow client.
constexpr double kGraceSeconds = 2;
// Calls that are no streams of ours: short ones, and watches of health, which
// nobody ends.
constexpr std::chrono::milliseconds kOthersGrace{200};
// How often ends of streams are looked for. They are not told: nobody else
// waits for them, and a ticket stays an atomic counter.
constexpr double kLookSeconds = 0.02;

}  // namespace

void StopCount::Set(int count) {
  MutexLock lock(mutex_);
  count_ = count;
  changed_.SignalAll();
}

void StopCount::Await(int count) {
  MutexLock lock(mutex_);
  changed_.Wait(
      mutex_, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return count_ >= count; });
}

bool StopCount::AwaitFor(int count, double seconds) {
  MutexLock lock(mutex_);
  const auto due = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return count_ >= count;
  };
  return changed_.WaitFor(mutex_,
                          std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::duration<double>(seconds)),
                          due);
}

// Tickets first: who has one may not be a stream yet, and none is given out any
// more. A stream outlives its ticket until its end is written.
bool Drain::NoStream() const {
  return parts_.admission.held() == 0 && parts_.service.streams() == 0;
}

void Drain::AwaitNoStream(double until_seconds) {
  while (!NoStream() && clock_.now_seconds() < until_seconds)
    if (parts_.stop.AwaitFor(2, kLookSeconds)) return;
}

// Again and again, for those that were let in and are streams only now.
void Drain::HandOver() {
  const double until_seconds = clock_.now_seconds() + kGraceSeconds;
  int64_t count = 0;
  while (!NoStream() && clock_.now_seconds() < until_seconds) {
    count += parts_.active.DrainAll();
    std::this_thread::sleep_for(std::chrono::duration<double>(kLookSeconds));
  }
  if (count > 0)
    LogWarning("gateway", "streams handed over", {{"streams", count}});
}

void Drain::Run(const Times& times) {
  parts_.stop.AwaitFor(2, times.delay_seconds);
  parts_.admission.Close();
  LogInfo("gateway", "refusing", {{"requests", parts_.admission.held()}});
  const double end_seconds = clock_.now_seconds() + times.timeout_seconds;
  AwaitNoStream(std::min(end_seconds, clock_.now_seconds() + kRefusalSeconds));
  // Sends GOAWAY, then waits for every call.
  const auto ended =
      std::async(std::launch::async, [this] { parts_.server.Shutdown(); });
  AwaitNoStream(end_seconds);
  HandOver();
  if (ended.wait_for(kOthersGrace) != std::future_status::ready)
    grpc_server_cancel_all_calls(parts_.server.c_server());
  ended.wait();
}

}  // namespace phalanx
