#ifndef PHALANX_WORKER_BENCH_MODEL_FIGURES_H_
#define PHALANX_WORKER_BENCH_MODEL_FIGURES_H_

// What the samples of a bench come to. Pure; any thread.

#include <array>
#include <cstdint>
#include <optional>

#include "worker/bench/model_report.h"
#include "worker/bench/part.h"
#include "worker/bench/rank_messages.h"

namespace phalanx {

// The depth that figures are projected to: that of the 35B.
inline constexpr int64_t kProjectedLayers = 40;

// What a case comes to: medians over its samples. None where none was kept.
struct CaseFigures {
  double tokens_per_second = 0;
  double pass_seconds = 0;
  double weight_bytes = 0;  // Of a pass, of all ranks, as are the next.
  double cache_bytes = 0;
  double flops = 0;
  double read_share = 0;          // Bytes a second, of the read bandwidth.
  double weights_read_share = 0;  // The same, of weights alone.
  double peak_share = 0;          // Of the peak for the format of the weights.
  // The least time that reading caches and each product by itself could take,
  // over the time it took; and of a part of weights, of its products and its
  // own time. None where the machine has no instruction for a format, or the
  // model no such part.
  std::optional<double> roof_share;
  std::array<std::optional<double>, kParts> part_roof_shares;
  double read_bytes_per_second = 0;
  double flops_per_second = 0;
  double experts_per_layer = 0;  // That got a token; 0 in a dense model.
  // Rate over that of one rank with as many threads, medians of ratios.
  std::optional<double> over_tp1;
  // The share of time of what is no product of weights.
  double not_weights_share = 0;
  // In offload.
  std::optional<double> hit_rate;
  std::optional<double> fetched_bytes_per_token;
  // Where the model has fewer layers: head + (step - head) by the ratio of
  // layers, the head's share being that of the run by part.
  std::optional<double> projected_tokens_per_second;
};
std::optional<CaseFigures> FiguresOf(const CaseReport& report,
                                     const ModelReport& model);

// What a rank held at most over what was planned for it.
double PeakOverPlanned(const ModelReport& model);

// Whether the model has fewer layers, and whole blocks of one attention layer
// and three others.
bool IsProjected(const ModelReport& model);

// The share of the time of each part in a timed pass; what no op took is
// kRest's.
PartSeconds PartShares(const PassResult& timed);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_MODEL_FIGURES_H_
