#include "tests/worker/scheduler/simulated_client.h"

#include <algorithm>
#include <limits>
#include <string>

namespace phalanx {

RequestMaker::RequestMaker(std::mt19937_64& random,
                           const SchedulerLimits& limits)
    : random_(random), limits_(limits) {
  if (Chance(4)) return;
  for (int64_t i = Between(1, 3); i > 0; --i)
    roots_.push_back(Ids(Between(1, limits.max_model_len)));
}

std::vector<Request> RequestMaker::Make(int64_t& arrivals) {
  Request request;
  request.id = std::to_string(arrivals + 1);
  request.prompt_ids = Prompt(request);
  request.max_tokens = Between(0, limits_.max_model_len / (Chance(3) ? 1 : 4));
  request.min_tokens = Chance(4) ? Between(0, request.max_tokens) : 0;
  if (Chance(3)) request.emitted_ids = Ids(Between(0, 4));
  if (Chance(3)) request.stop_ids = Ids(Between(1, 2));
  request.prompt_logprobs = request.max_tokens == 0 || Chance(8);
  request.priority = static_cast<int>(Between(0, kHighestPriority));
  request.key = std::string(1, static_cast<char>('a' + Between(0, 2)));
  request.cache.salt = Chance(4) ? "other" : "";
  request.cache.bypass = Chance(10);
  request.timeout_seconds = Seconds(8, 5000);
  request.max_time_seconds = Seconds(8, 5000);
  request.suspect = Chance(30);
  const int64_t choices = Chance(6) ? Between(2, 4) : 1;
  if (choices > 1) {
    const auto end = static_cast<int32_t>(request.prompt_ids.size()) - 1;
    while (!request.anchors.empty() && request.anchors.back() >= end)
      request.anchors.pop_back();
    if (end > 0) request.anchors.push_back(end);
  }
  std::vector<Request> requests;
  for (int32_t i = 0; i < choices; ++i) {
    requests.push_back(request);
    requests.back().sampling.choice_index = i;
    requests.back().sampling.seed = static_cast<uint64_t>(++arrivals);
  }
  return requests;
}

std::vector<int32_t> RequestMaker::Prompt(Request& request) {
  // Mostly short, so that many run at once and outgrow the pool.
  const int64_t longest = (limits_.max_model_len - 1) / (Chance(3) ? 1 : 5);
  const int64_t length =
      Between(Chance(30) ? 0 : 1, std::max<int64_t>(1, longest));
  std::vector<int32_t> prompt = Ids(length);
  if (!roots_.empty() && !Chance(5)) {
    const auto& root =
        roots_[Between(0, static_cast<int64_t>(roots_.size()) - 1)];
    const int64_t shared = std::min<int64_t>(
        length, Chance(2) ? root.size() : Between(0, root.size()));
    std::copy_n(root.begin(), shared, prompt.begin());
    if (shared > 0) request.anchors.push_back(static_cast<int32_t>(shared));
  }
  for (int64_t i = Chance(2) ? Between(0, 4) : 0; i > 0 && length > 0; --i)
    request.anchors.push_back(static_cast<int32_t>(Between(1, length)));
  std::sort(request.anchors.begin(), request.anchors.end());
  request.anchors.erase(
      std::unique(request.anchors.begin(), request.anchors.end()),
      request.anchors.end());
  return prompt;
}

double RequestMaker::Seconds(int64_t one_in, int64_t most_ms) {
  if (!Chance(one_in)) return std::numeric_limits<double>::infinity();
  return static_cast<double>(Between(0, most_ms)) / 1e3;
}

int64_t RequestMaker::Between(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

std::vector<int32_t> RequestMaker::Ids(int64_t count) {
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids)
    id = static_cast<int32_t>(Between(0, limits_.vocab_size - 1));
  return ids;
}

}  // namespace phalanx
