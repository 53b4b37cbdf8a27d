#ifndef PHALANX_GATEWAY_API_ACTIVE_REQUESTS_H_
#define PHALANX_GATEWAY_API_ACTIVE_REQUESTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"

namespace phalanx {

// The streams that this gateway serves now, by request id, so that Cancel finds
// them. Made by main, outlives every stream; any thread.
class ActiveRequests {
 public:
  class Stream {
   public:
    virtual ~Stream() = default;
    // Ends the stream CANCELLED/CLIENT; false if it was over already. Called
    // without this registry's lock.
    virtual bool CancelByClient() = 0;
    // Ends the stream UNAVAILABLE/DRAINING{resume_token}, so that its client
    // goes on elsewhere; otherwise as CancelByClient.
    virtual bool EndForDrain() = 0;
  };

  // ALREADY_EXISTS/REQUEST_ACTIVE if a stream of this id runs. The registry
  // keeps no stream alive, but a call to it does.
  absl::Status Add(const std::string& request_id, const std::string& tag,
                   std::weak_ptr<Stream> stream);
  void Remove(const std::string& request_id);

  // Each cancels what it names and returns how many streams that were.
  int64_t Cancel(const std::string& request_id);
  int64_t CancelTag(const std::string& tag);
  int64_t CancelAll();

  // Hands every stream over to other gateways; how many there were.
  int64_t DrainAll();

 private:
  struct Entry {
    std::string tag;
    std::weak_ptr<Stream> stream;
  };

  std::vector<Entry> All();
  static int64_t CancelEach(const std::vector<Entry>& entries);

  Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace phalanx

#endif  // PHALANX_GATEWAY_API_ACTIVE_REQUESTS_H_
