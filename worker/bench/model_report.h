#ifndef PHALANX_WORKER_BENCH_MODEL_REPORT_H_
#define PHALANX_WORKER_BENCH_MODEL_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/bench/cases.h"
#include "worker/bench/machine_probe.h"
#include "worker/bench/rank_loop.h"
#include "worker/bench/samples.h"
#include "worker/bench/work.h"

namespace phalanx {

// Passes of one case, and the machine of that minute.
struct ModelSample {
  PassResult run;
  std::optional<PassResult> tp1;  // Of the group of one rank, right after.
  Roofs roofs;
};

struct CaseReport {
  BenchCase c;
  SampleCount count;
  std::vector<ModelSample> samples;  // Those that were kept.
  PassResult timed;                  // The run by part.
};

// What products with weights of this format are held against.
Peak PeakForWeights(const std::string& weights);

// All that a bench of a model found.
struct ModelReport {
  std::string model_dir;
  std::string processor;
  int64_t layers = 0;
  int tp_size = 1;
  RankFacts facts;  // Of rank 0.
  int rounds = 0;
  MachineRoofs before;
  MachineRoofs after;
  int64_t peak_bytes = 0;
  std::vector<CaseReport> cases;
  std::vector<std::string> left_out;
};

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

// The share of each part in a timed pass; what no op took is kRest's.
PartSeconds PartShares(const PassResult& timed);

// For a person, lines of at most 100 columns.
std::string ModelText(const ModelReport& report);

// One JSON object; README.md lists its fields.
std::string ModelJson(const ModelReport& report);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_MODEL_REPORT_H_
