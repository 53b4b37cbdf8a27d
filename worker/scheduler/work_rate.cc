#include "worker/scheduler/work_rate.h"

namespace phalanx {
namespace {

constexpr double kFading = 0.99;
constexpr int64_t kEnoughSteps = 32;

}  // namespace

void WorkRate::Add(int64_t tokens, double seconds) {
  tokens_ = kFading * tokens_ + static_cast<double>(tokens);
  seconds_ = kFading * seconds_ + seconds;
  ++steps_;
}

std::optional<double> WorkRate::tokens_per_second() const {
  if (steps_ < kEnoughSteps || seconds_ <= 0) return std::nullopt;
  return tokens_ / seconds_;
}

}  // namespace phalanx
