#include "gateway/api/active_requests.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/reason.h"

namespace phalanx {

absl::Status ActiveRequests::Add(const std::string& request_id,
                                 const std::string& tag,
                                 std::weak_ptr<Stream> stream) {
  MutexLock lock(mutex_);
  if (!entries_.emplace(request_id, Entry{tag, std::move(stream)}).second)
    return ReasonedError(
        absl::StatusCode::kAlreadyExists, "REQUEST_ACTIVE",
        absl::StrCat("request_id ", request_id, " is being served already"));
  return absl::OkStatus();
}

void ActiveRequests::Remove(const std::string& request_id) {
  MutexLock lock(mutex_);
  entries_.erase(request_id);
}

// gRPC may run a stream's last callback on this thread, inside the call, and
// that removes the stream from here: so never under the lock.
int64_t ActiveRequests::CancelEach(const std::vector<Entry>& entries) {
  int64_t count = 0;
  for (const Entry& entry : entries) {
    const std::shared_ptr<Stream> stream = entry.stream.lock();
    if (stream != nullptr && stream->CancelByClient()) ++count;
  }
  return count;
}

int64_t ActiveRequests::Cancel(const std::string& request_id) {
  std::vector<Entry> named;
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(request_id);
    if (found != entries_.end()) named.push_back(found->second);
  }
  return CancelEach(named);
}

int64_t ActiveRequests::CancelTag(const std::string& tag) {
  std::vector<Entry> named;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, entry] : entries_)
      if (entry.tag == tag) named.push_back(entry);
  }
  return CancelEach(named);
}

std::vector<ActiveRequests::Entry> ActiveRequests::All() {
  std::vector<Entry> all;
  MutexLock lock(mutex_);
  for (const auto& [id, entry] : entries_) all.push_back(entry);
  return all;
}

int64_t ActiveRequests::CancelAll() { return CancelEach(All()); }

int64_t ActiveRequests::DrainAll() {
  int64_t count = 0;
  for (const Entry& entry : All()) {
    const std::shared_ptr<Stream> stream = entry.stream.lock();
    if (stream != nullptr && stream->EndForDrain()) ++count;
  }
  return count;
}

}  // namespace phalanx
