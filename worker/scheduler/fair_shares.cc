#include "worker/scheduler/fair_shares.h"

#include <algorithm>
#include <limits>

#include "common/check.h"

namespace phalanx {

FairShares::Share* FairShares::Enter(const std::string& key) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [other, share] : shares_)
    if (share.waiting > 0) least = std::min(least, share.service);
  if (least < std::numeric_limits<double>::infinity())
    time_ = std::max(time_, least);
  Share& share = shares_[key];
  if (share.waiting == 0) share.service = std::max(share.service, time_);
  ++share.requests;
  return &share;
}

void FairShares::Leave(const std::string& key) {
  const auto it = shares_.find(key);
  CHECK(it != shares_.end());
  if (--it->second.requests == 0) shares_.erase(it);
}

void FairShares::Charge(Share& share, int64_t tokens) {
  share.service += static_cast<double>(tokens);
  time_ += static_cast<double>(tokens) / static_cast<double>(keys());
}

}  // namespace phalanx
