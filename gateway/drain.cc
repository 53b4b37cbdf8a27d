#include "gateway/drain.h"

#include <grpc/grpc.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "common/log.h"

namespace phalanx {
namespace {

// Who comes to a closed door hears why, and goes elsewhere. Then the door goes
// too, for those whose connection a balancer keeps here. gRPC answers CANCELLED
// to a call that meets this moment, so it is one in which nobody comes: after
// the first of these times, and this much without a call; or at the second.
constexpr double kRefusalSeconds = 2;
constexpr double kRefusalMostSeconds = 5;
constexpr double kQuietSeconds = 0.25;
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

// Whether streams, time or patience are over; else after a short while.
bool Drain::Over(double until_seconds) {
  return NoStream() || clock_.now_seconds() >= until_seconds ||
         parts_.stop.AwaitFor(2, kLookSeconds);
}

void Drain::AwaitQuiet(double until_seconds) {
  const double began_seconds = clock_.now_seconds();
  double quiet_since_seconds = began_seconds;
  int64_t turned_away = 0;
  while (!Over(until_seconds)) {
    const double now = clock_.now_seconds();
    if (parts_.admission.turned_away() != turned_away)
      quiet_since_seconds = now;
    turned_away = parts_.admission.turned_away();
    const double waited = now - began_seconds;
    if (waited >= kRefusalMostSeconds ||
        (waited >= kRefusalSeconds &&
         now - quiet_since_seconds >= kQuietSeconds))
      return;
  }
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

// Closes all connections; `ended`: when Shutdown, if it was called, returns.
// What they still carry is no stream of ours.
void Drain::Close(std::future<void> ended) {
  if (ended.valid() &&
      ended.wait_for(kOthersGrace) == std::future_status::ready)
    return;
  // Before Shutdown, if that was not called yet: to clients it is a connection
  // that broke, UNAVAILABLE, rather than CANCELLED.
  grpc_server_cancel_all_calls(parts_.server.c_server());
  if (ended.valid())
    ended.wait();
  else
    parts_.server.Shutdown(std::chrono::system_clock::now());
}

void Drain::Run(const Times& times) {
  parts_.stop.AwaitFor(2, times.delay_seconds);
  parts_.admission.Close();
  LogInfo("gateway", "refusing", {{"requests", parts_.admission.held()}});
  const double end_seconds = clock_.now_seconds() + times.timeout_seconds;
  AwaitQuiet(end_seconds);
  std::future<void> ended;
  if (!Over(end_seconds)) {
    // Sends GOAWAY, then waits for every call.
    ended =
        std::async(std::launch::async, [this] { parts_.server.Shutdown(); });
    while (!Over(end_seconds)) {
    }
  }
  HandOver();
  Close(std::move(ended));
}

}  // namespace phalanx
