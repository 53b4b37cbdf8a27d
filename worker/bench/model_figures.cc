#include "worker/bench/model_figures.h"

#include <functional>
#include <utility>
#include <vector>

namespace phalanx {
namespace {

double MedianOf(const CaseReport& report,
                const std::function<double(const ModelSample&)>& of) {
  std::vector<double> values;
  for (const ModelSample& sample : report.samples) values.push_back(of(sample));
  return Median(std::move(values)).value_or(0);
}

double PassSeconds(const PassResult& run) {
  return run.seconds / static_cast<double>(run.passes);
}

double Over(double a, double b) { return b > 0 ? a / b : 0; }

// What ranks do alike they do as one: rank 0's work stands for all.
double OfAllRanks(double of_rank, const ModelReport& model) {
  return of_rank * model.tp_size;
}

std::optional<double> Projected(const CaseReport& report,
                                const ModelReport& model, double pass_seconds) {
  if (!IsProjected(model)) return std::nullopt;
  const double head =
      pass_seconds * PartShares(report.timed)[static_cast<size_t>(Part::kHead)];
  const double deep = head + (pass_seconds - head) *
                                 static_cast<double>(kProjectedLayers) /
                                 static_cast<double>(model.layers);
  return static_cast<double>(report.c.rows) / deep;
}

// What the roof of a sample takes of its time, and that of each part of the
// part's.
struct RoofShares {
  double pass = 0;
  PartSeconds parts = {};
};
std::optional<RoofShares> RoofSharesOf(const ModelSample& sample,
                                       const PartSeconds& time_shares,
                                       const ModelReport& model) {
  // A quantised model's few bf16 products have no look of their own.
  const Roofs roofs =
      CompletedBy(sample.roofs, MeanOf(model.before.all, model.after.all));
  const Work& work = sample.run.work;
  const std::optional<PartSeconds> least = work.products.LeastSeconds(roofs);
  if (!least) return std::nullopt;
  RoofShares shares;
  double all = Over(work.cache_bytes, roofs.read);
  for (int i = 0; i < kParts; ++i) {
    all += (*least)[i];
    shares.parts[i] = Over(OfAllRanks((*least)[i], model),
                           time_shares[i] * sample.run.seconds);
  }
  shares.pass = OfAllRanks(all, model) / sample.run.seconds;
  return shares;
}

void AddRoofShares(const CaseReport& report, const ModelReport& model,
                   CaseFigures& f) {
  const PartSeconds time_shares = PartShares(report.timed);
  std::vector<double> passes;
  std::array<std::vector<double>, kParts> parts;
  for (const ModelSample& sample : report.samples) {
    const auto shares = RoofSharesOf(sample, time_shares, model);
    if (!shares) return;
    passes.push_back(shares->pass);
    for (int i = 0; i < kParts; ++i)
      if (IsWeights(static_cast<Part>(i)) && time_shares[i] > 0)
        parts[i].push_back(shares->parts[i]);
  }
  f.roof_share = Median(std::move(passes));
  for (int i = 0; i < kParts; ++i)
    f.part_roof_shares[i] = Median(std::move(parts[i]));
}

}  // namespace

double PeakOverPlanned(const ModelReport& model) {
  return Over(static_cast<double>(model.peak_bytes),
              static_cast<double>(model.facts.planned_bytes));
}

bool IsProjected(const ModelReport& model) {
  return model.layers < kProjectedLayers && model.layers % 4 == 0;
}

PartSeconds PartShares(const PassResult& timed) {
  PartSeconds shares = timed.parts;
  double ops = 0;
  for (const double part : timed.parts) ops += part;
  double& rest = shares[static_cast<size_t>(Part::kRest)];
  if (timed.seconds > ops) rest += timed.seconds - ops;
  double all = 0;
  for (const double part : shares) all += part;
  for (double& share : shares) share = Over(share, all);
  return shares;
}

std::optional<CaseFigures> FiguresOf(const CaseReport& report,
                                     const ModelReport& model) {
  if (report.samples.empty()) return std::nullopt;
  const auto median = [&](const std::function<double(const ModelSample&)>& of) {
    return MedianOf(report, of);
  };
  // Of a pass, of all ranks.
  const auto each = [&](const std::function<double(const Work&)>& of) {
    return median([&](const ModelSample& s) {
      return OfAllRanks(of(s.run.work), model) /
             static_cast<double>(s.run.passes);
    });
  };
  const auto rate = [&](const ModelSample& s, double of_rank) {
    return OfAllRanks(of_rank, model) / s.run.seconds;
  };
  CaseFigures f;
  f.pass_seconds =
      median([](const ModelSample& s) { return PassSeconds(s.run); });
  f.tokens_per_second = static_cast<double>(report.c.rows) / f.pass_seconds;
  f.weight_bytes = each(&Work::weight_bytes);
  f.cache_bytes = each(&Work::cache_bytes);
  f.flops = each(&Work::flops);
  f.read_bytes_per_second = median(
      [&](const ModelSample& s) { return rate(s, s.run.work.read_bytes()); });
  f.flops_per_second =
      median([&](const ModelSample& s) { return rate(s, s.run.work.flops()); });
  f.read_share = median([&](const ModelSample& s) {
    return Over(rate(s, s.run.work.read_bytes()), s.roofs.read);
  });
  f.weights_read_share = median([&](const ModelSample& s) {
    return Over(rate(s, s.run.work.weight_bytes()), s.roofs.read);
  });
  f.peak_share = median([&](const ModelSample& s) {
    return Over(rate(s, s.run.work.flops()),
                PeakOf(PeakFor(model.facts.weights), s.roofs));
  });
  AddRoofShares(report, model, f);
  f.experts_per_layer = median([](const ModelSample& s) {
    return Over(s.run.work.experts, s.run.work.expert_layers);
  });
  if (report.samples.front().tp1)
    f.over_tp1 = median([](const ModelSample& s) {
      return PassSeconds(*s.tp1) / PassSeconds(s.run);
    });
  const PartSeconds shares = PartShares(report.timed);
  for (int i = 0; i < kParts; ++i)
    if (!IsWeights(static_cast<Part>(i))) f.not_weights_share += shares[i];
  if (model.facts.moe_mode == "offload") {
    f.hit_rate = median([](const ModelSample& s) {
      return Over(s.run.work.hits, s.run.work.hits + s.run.work.fetches);
    });
    f.fetched_bytes_per_token =
        each(&Work::fetched_bytes) / static_cast<double>(report.c.rows);
  }
  f.projected_tokens_per_second = Projected(report, model, f.pass_seconds);
  return f;
}

}  // namespace phalanx
