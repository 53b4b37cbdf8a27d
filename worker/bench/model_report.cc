#include "worker/bench/model_report.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"
#include "worker/bench/machine_text.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

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

// Whole blocks of one attention layer and three others, fewer than the 35B's.
bool IsProjected(const ModelReport& model) {
  return model.layers < kProjectedLayers && model.layers % 4 == 0;
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

}  // namespace

Peak PeakForWeights(const std::string& weights) {
  return weights == "bf16" ? Peak::kBf16 : Peak::kInt8;
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
  const auto each = [&](double Work::*field) {
    return median([&](const ModelSample& s) {
      return OfAllRanks(s.run.work.*field, model) /
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
      median([&](const ModelSample& s) { return rate(s, s.run.work.flops); });
  f.read_share = median([&](const ModelSample& s) {
    return Over(rate(s, s.run.work.read_bytes()), s.roofs.read);
  });
  f.weights_read_share = median([&](const ModelSample& s) {
    return Over(rate(s, s.run.work.weight_bytes), s.roofs.read);
  });
  f.peak_share = median([&](const ModelSample& s) {
    return Over(rate(s, s.run.work.flops),
                PeakOf(PeakForWeights(model.facts.weights), s.roofs));
  });
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

namespace {

Json OrNull(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json CaseJson(const CaseReport& report, const ModelReport& model) {
  Json json = {{"kind", CaseKindName(report.c.kind)},
               {"rows", report.c.rows},
               {"context", report.c.context},
               {"kept", report.count.kept},
               {"thrown", report.count.thrown}};
  const std::optional<CaseFigures> f = FiguresOf(report, model);
  const auto put = [&](const char* name, double CaseFigures::*figure) {
    json[name] = f ? Json((*f).*figure) : Json();
  };
  const auto put_optional = [&](const char* name,
                                std::optional<double> CaseFigures::*figure) {
    json[name] = f ? OrNull((*f).*figure) : Json();
  };
  put("tokens_per_second", &CaseFigures::tokens_per_second);
  put("pass_seconds", &CaseFigures::pass_seconds);
  put("weight_bytes", &CaseFigures::weight_bytes);
  put("cache_bytes", &CaseFigures::cache_bytes);
  put("flops", &CaseFigures::flops);
  put("read_bytes_per_second", &CaseFigures::read_bytes_per_second);
  put("read_share", &CaseFigures::read_share);
  put("weights_read_share", &CaseFigures::weights_read_share);
  put("flops_per_second", &CaseFigures::flops_per_second);
  put("peak_share", &CaseFigures::peak_share);
  put("experts_per_layer", &CaseFigures::experts_per_layer);
  put("not_weights_share", &CaseFigures::not_weights_share);
  Json parts;
  const PartSeconds shares = PartShares(report.timed);
  for (int i = 0; i < kParts; ++i) parts[kPartNames[i]] = shares[i];
  json["parts"] = std::move(parts);
  put_optional("over_tp1", &CaseFigures::over_tp1);
  put_optional("hit_rate", &CaseFigures::hit_rate);
  put_optional("fetched_bytes_per_token",
               &CaseFigures::fetched_bytes_per_token);
  put_optional("projected_40_layers_tokens_per_second",
               &CaseFigures::projected_tokens_per_second);
  return json;
}

std::string Percent(double share) {
  return absl::StrFormat("%.1f %%", 100 * share);
}

// A column of a table of cases: its name, and what it shows of one.
struct Column {
  std::string name;
  std::function<std::string(const CaseFigures&)> show;
};

Column Number(const char* name, double CaseFigures::*figure, double unit,
              int digits) {
  return {name, [=](const CaseFigures& f) {
            return absl::StrFormat("%.*f", digits, f.*figure / unit);
          }};
}

std::vector<Column> SpeedColumns() {
  return {Number("tokens/s", &CaseFigures::tokens_per_second, 1, 1),
          Number("ms", &CaseFigures::pass_seconds, 1e-3, 2),
          Number("GB/s", &CaseFigures::read_bytes_per_second, 1e9, 1),
          Number("of read", &CaseFigures::read_share, 1, 2),
          Number("GFLOP/s", &CaseFigures::flops_per_second, 1e9, 0),
          Number("of peak", &CaseFigures::peak_share, 1, 2),
          {"not weights",
           [](const CaseFigures& f) { return Percent(f.not_weights_share); }}};
}

// Of what there is only in some models and groups.
std::vector<Column> OtherColumns(const ModelReport& report) {
  std::vector<Column> columns;
  const auto add = [&](const char* name,
                       std::optional<double> CaseFigures::*figure, double unit,
                       int digits) {
    columns.push_back({name, [=](const CaseFigures& f) {
                         return f.*figure ? absl::StrFormat("%.*f", digits,
                                                            *(f.*figure) / unit)
                                          : "-";
                       }});
  };
  columns.push_back(
      Number("experts a layer", &CaseFigures::experts_per_layer, 1, 1));
  if (report.tp_size > 1) add("over TP 1", &CaseFigures::over_tp1, 1, 2);
  if (report.facts.moe_mode == "offload") {
    add("hits", &CaseFigures::hit_rate, 1, 3);
    add("fetched MB/token", &CaseFigures::fetched_bytes_per_token, 1e6, 2);
  }
  if (IsProjected(report))
    add("projected tokens/s", &CaseFigures::projected_tokens_per_second, 1, 2);
  return columns;
}

std::string CaseTable(const ModelReport& report, const char* heading,
                      const std::vector<Column>& columns) {
  std::vector<Cells> rows(1, Cells{heading});
  for (const Column& column : columns) rows[0].push_back(column.name);
  rows[0].push_back("kept");
  for (const CaseReport& c : report.cases) {
    Cells cells = {CaseName(c.c)};
    const std::optional<CaseFigures> f = FiguresOf(c, report);
    for (const Column& column : columns)
      cells.push_back(f ? column.show(*f) : "-");
    cells.push_back(
        absl::StrCat(c.count.kept, "/", c.count.kept + c.count.thrown));
    rows.push_back(std::move(cells));
  }
  return AlignedTable(rows);
}

std::string PartTable(const ModelReport& report) {
  std::vector<Cells> rows(1, Cells{"time by part"});
  for (const char* name : kPartNames) rows[0].push_back(name);
  for (const CaseReport& c : report.cases) {
    Cells cells = {CaseName(c.c)};
    for (const double share : PartShares(c.timed))
      cells.push_back(Percent(share));
    rows.push_back(std::move(cells));
  }
  return AlignedTable(rows);
}

int ThrownOf(const ModelReport& report) {
  int thrown = 0;
  for (const CaseReport& c : report.cases) thrown += c.count.thrown;
  return thrown;
}

std::string Heading(const ModelReport& report) {
  return absl::StrCat(
      report.model_dir, ": ", report.layers, " layers, ", report.facts.weights,
      " weights, experts ", report.facts.moe_mode, "\n", report.processor, "; ",
      report.facts.instruction_set, ", ", report.facts.kernel_family, "; TP ",
      report.tp_size, " x ", report.facts.threads,
      report.facts.threads == 1 ? " thread\n" : " threads\n");
}

}  // namespace

std::string ModelText(const ModelReport& report) {
  const RankFacts& facts = report.facts;
  std::string text = absl::StrCat(
      Heading(report), "\n", MachineText(report.before, report.after), "\n",
      CaseTable(report, "speed", SpeedColumns()),
      "Medians of the samples kept; a prefill's ms are those of the whole "
      "prompt. GB/s: weights touched,\nkeys, values and states, each once a "
      "step. GFLOP/s: products with weights.\n\n",
      CaseTable(report, "more", OtherColumns(report)));
  if (IsProjected(report))
    absl::StrAppend(&text,
                    "Projected to 40 layers, not measured: head + (step - "
                    "head) x 40 / ",
                    report.layers, ".\n");
  absl::StrAppend(&text, "\n", PartTable(report));
  absl::StrAppend(
      &text, "\nA rank holds at most ", FormatByteSize(report.peak_bytes),
      " of ", FormatByteSize(facts.planned_bytes), " planned: ",
      absl::StrFormat("%.3f", Over(static_cast<double>(report.peak_bytes),
                                   static_cast<double>(facts.planned_bytes))),
      absl::StrFormat("; loaded in %.1f s.\n", facts.load_seconds));
  if (const int thrown = ThrownOf(report); thrown > 0)
    absl::StrAppend(&text, thrown,
                    thrown == 1 ? " sample was" : " samples were",
                    " thrown away: the machine moved by over ",
                    absl::StrFormat("%.0f %% meanwhile.\n", 100 * kMostMoved));
  for (const std::string& reason : report.left_out)
    absl::StrAppend(&text, "Left out: ", reason, ".\n");
  return text;
}

std::string ModelJson(const ModelReport& report) {
  const RankFacts& facts = report.facts;
  Json json = {
      {"model", report.model_dir},
      {"layers", report.layers},
      {"processor", report.processor},
      {"instruction_set", facts.instruction_set},
      {"kernel_family", facts.kernel_family},
      {"weights", facts.weights},
      {"moe_mode", facts.moe_mode},
      {"tp_size", report.tp_size},
      {"threads", facts.threads},
      {"rounds", report.rounds},
      {"machine",
       {{"before", MachineJson(report.before)},
        {"after", MachineJson(report.after)}}},
      {"load_seconds", facts.load_seconds},
      {"planned_bytes", facts.planned_bytes},
      {"peak_bytes", report.peak_bytes},
      {"peak_over_planned", Over(static_cast<double>(report.peak_bytes),
                                 static_cast<double>(facts.planned_bytes))},
      {"thrown", ThrownOf(report)},
      {"left_out", report.left_out}};
  Json cases = Json::array();
  for (const CaseReport& c : report.cases) cases.push_back(CaseJson(c, report));
  json["cases"] = std::move(cases);
  return json.dump(2) + "\n";
}

}  // namespace phalanx
