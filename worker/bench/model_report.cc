#include "worker/bench/model_report.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"
#include "worker/bench/machine_text.h"
#include "worker/bench/model_figures.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

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
  put_optional("roof_share", &CaseFigures::roof_share);
  Json roofs;
  for (int i = 0; i < kParts; ++i)
    if (IsWeights(static_cast<Part>(i)))
      roofs[kPartNames[i]] = f ? OrNull(f->part_roof_shares[i]) : Json();
  json["part_roof_shares"] = std::move(roofs);
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

// Of what there is only in some models and groups.
Column NumberOrNone(
    const char* name,
    const std::function<std::optional<double>(const CaseFigures&)>& figure,
    double unit, int digits) {
  return {name, [=](const CaseFigures& f) {
            const std::optional<double> value = figure(f);
            return value ? absl::StrFormat("%.*f", digits, *value / unit) : "-";
          }};
}

std::vector<Column> SpeedColumns() {
  return {Number("tokens/s", &CaseFigures::tokens_per_second, 1, 1),
          Number("ms", &CaseFigures::pass_seconds, 1e-3, 2),
          Number("GB/s", &CaseFigures::read_bytes_per_second, 1e9, 1),
          Number("of read", &CaseFigures::read_share, 1, 2),
          Number("GFLOP/s", &CaseFigures::flops_per_second, 1e9, 0),
          Number("of peak", &CaseFigures::peak_share, 1, 2),
          NumberOrNone("of roof", &CaseFigures::roof_share, 1, 2)};
}

std::vector<Column> RoofColumns() {
  std::vector<Column> columns;
  for (int i = 0; i < kParts; ++i)
    if (IsWeights(static_cast<Part>(i)))
      columns.push_back(NumberOrNone(
          kPartNames[i],
          [i](const CaseFigures& f) { return f.part_roof_shares[i]; }, 1, 2));
  columns.push_back({"not weights", [](const CaseFigures& f) {
                       return Percent(f.not_weights_share);
                     }});
  return columns;
}

std::vector<Column> OtherColumns(const ModelReport& report) {
  std::vector<Column> columns = {
      Number("experts a layer", &CaseFigures::experts_per_layer, 1, 1)};
  if (report.tp_size > 1)
    columns.push_back(NumberOrNone("over TP 1", &CaseFigures::over_tp1, 1, 2));
  if (report.facts.moe_mode == "offload") {
    columns.push_back(NumberOrNone("hits", &CaseFigures::hit_rate, 1, 3));
    columns.push_back(NumberOrNone(
        "fetched MB/token", &CaseFigures::fetched_bytes_per_token, 1e6, 2));
  }
  if (IsProjected(report))
    columns.push_back(NumberOrNone(
        "projected tokens/s", &CaseFigures::projected_tokens_per_second, 1, 2));
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

// Below their tables, lines of at most 100 columns.
constexpr char kSpeedNote[] =
    "Medians of the samples kept; a prefill's ms are those of the whole "
    "prompt.\n"
    "GB/s: weights touched, keys, values and states, each once a step. "
    "GFLOP/s: products with weights.\n"
    "Of roof: the least time, each product the longer of its bytes and its "
    "operations, over the time.\n";
constexpr char kRoofNote[] =
    "A part's products by themselves, over the part's time. Not weights: the "
    "share of all other time.\n";

std::string Heading(const ModelReport& report) {
  return absl::StrCat(report.model_dir, ": ", report.layers, " layers, ",
                      WeightFormatName(report.facts.weights),
                      " weights, experts ", report.facts.moe_mode, "\n",
                      report.processor, "; ", report.facts.instruction_set,
                      ", ", report.facts.kernel_family, "; TP ", report.tp_size,
                      " x ", report.facts.threads,
                      report.facts.threads == 1 ? " thread\n" : " threads\n");
}

}  // namespace

std::string ModelText(const ModelReport& report) {
  const RankFacts& facts = report.facts;
  std::string text = absl::StrCat(
      Heading(report), "\n", MachineText(report.before, report.after), "\n",
      CaseTable(report, "speed", SpeedColumns()), kSpeedNote, "\n",
      CaseTable(report, "of its roof", RoofColumns()), kRoofNote, "\n",
      CaseTable(report, "more", OtherColumns(report)));
  if (IsProjected(report))
    absl::StrAppend(&text,
                    "Projected to 40 layers, not measured: head + (step - "
                    "head) x 40 / ",
                    report.layers, ".\n");
  absl::StrAppend(&text, "\n", PartTable(report));
  absl::StrAppend(
      &text, "\nA rank holds at most ", FormatByteSize(report.peak_bytes),
      " of ", FormatByteSize(facts.planned_bytes),
      " planned: ", absl::StrFormat("%.3f", PeakOverPlanned(report)),
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
  Json json = {{"model", report.model_dir},
               {"layers", report.layers},
               {"processor", report.processor},
               {"instruction_set", facts.instruction_set},
               {"kernel_family", facts.kernel_family},
               {"weights", WeightFormatName(facts.weights)},
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
               {"peak_over_planned", PeakOverPlanned(report)},
               {"thrown", ThrownOf(report)},
               {"left_out", report.left_out}};
  Json cases = Json::array();
  for (const CaseReport& c : report.cases) cases.push_back(CaseJson(c, report));
  json["cases"] = std::move(cases);
  // The folder's name may be of any bytes.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace phalanx
