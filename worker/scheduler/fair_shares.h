#ifndef PHALANX_WORKER_SCHEDULER_FAIR_SHARES_H_
#define PHALANX_WORKER_SCHEDULER_FAIR_SHARES_H_

#include <cstdint>
#include <map>
#include <string>

namespace phalanx {

// How much each key was served, so that the one that got least goes first.
//
// Service is counted in tokens computed, against a virtual time: what each of
// the present keys would have got of all that was served, had they shared it
// alike; and never less than the least among those that wait. A key that comes
// starts at that time: it neither owes for the past nor has saved anything up,
// and it cannot go before those that wait for ever, since the time passes with
// all that is served. (Start-time fair queueing; Goyal, Vin, Cheng 1996.)
//
// One thread. A key is known as long as it has requests.
class FairShares {
 public:
  struct Share {
    double service = 0;
    int64_t requests = 0;  // That are here.
    int64_t waiting = 0;   // Of these, in the queue; kept by WaitingQueue.
  };

  // A request of this key came; before it is put into the queue. The share
  // stays where it is until the last of the key's requests has left.
  Share* Enter(const std::string& key);
  void Leave(const std::string& key);

  // So many tokens are computed for it.
  void Charge(Share& share, int64_t tokens);

  int64_t keys() const { return static_cast<int64_t>(shares_.size()); }

 private:
  std::map<std::string, Share> shares_;
  double time_ = 0;
};

}  // namespace phalanx

#endif  // PHALANX_WORKER_SCHEDULER_FAIR_SHARES_H_
