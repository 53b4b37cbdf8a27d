#ifndef PHALANX_WORKER_BENCH_MODEL_REPORT_H_
#define PHALANX_WORKER_BENCH_MODEL_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/bench/cases.h"
#include "worker/bench/rank_messages.h"
#include "worker/bench/roofs.h"
#include "worker/bench/samples.h"

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

// For a person, lines of at most 100 columns.
std::string ModelText(const ModelReport& report);

// One JSON object; README.md lists its fields.
std::string ModelJson(const ModelReport& report);

}  // namespace phalanx

#endif  // PHALANX_WORKER_BENCH_MODEL_REPORT_H_
