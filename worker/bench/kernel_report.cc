#include "worker/bench/kernel_report.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/bench/machine_text.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> MedianOf(
    const KernelCaseReport& c,
    const std::function<double(const KernelSample&)>& of) {
  std::vector<double> values;
  for (const KernelSample& sample : c.samples) values.push_back(of(sample));
  return Median(std::move(values));
}

// What a case comes to: medians; none where no sample was kept.
struct Figures {
  std::optional<double> seconds;
  std::optional<double> roof_share;
};

Figures FiguresOf(const KernelCaseReport& c, const KernelReport& report) {
  return {.seconds = MedianOf(c, [](const auto& s) { return s.seconds; }),
          .roof_share = MedianOf(c, [&](const KernelSample& s) {
            return RoofShare(c.work, s, report.before.ping_pong_seconds);
          })};
}

std::string Rate(double work, const std::optional<double>& seconds) {
  if (!seconds || work == 0) return "-";
  return absl::StrFormat("%.1f", work / *seconds / 1e9);
}

}  // namespace

double RoofShare(const KernelWork& work, const KernelSample& sample,
                 double ping_pong_seconds) {
  const std::optional<double> least =
      LeastSeconds(work.bytes, work.flops, work.peak, sample.roofs);
  if (!least) return 0;
  return (work.to_and_fro ? std::max(*least, ping_pong_seconds) : *least) /
         sample.seconds;
}

std::string KernelText(const KernelReport& report) {
  std::vector<std::vector<std::string>> rows = {{"kernel", "weights", "rows",
                                                 "us", "GB/s", "GFLOP/s",
                                                 "of its roof", "kept"}};
  int thrown = 0;
  for (const KernelCaseReport& c : report.cases) {
    const Figures f = FiguresOf(c, report);
    thrown += c.count.thrown;
    rows.push_back(
        {c.work.name, c.work.format, absl::StrCat(c.work.rows),
         f.seconds ? absl::StrFormat("%.1f", 1e6 * *f.seconds) : "-",
         Rate(c.work.bytes, f.seconds), Rate(c.work.flops, f.seconds),
         f.roof_share ? absl::StrFormat("%.2f", *f.roof_share) : "-",
         absl::StrCat(c.count.kept, "/", c.count.kept + c.count.thrown)});
  }
  std::string text = absl::StrCat(
      report.processor, "; ", report.instruction_set, ", ",
      report.kernel_family, "; ", report.threads,
      report.threads == 1 ? " thread\n\n" : " threads\n\n",
      MachineText(report.before, report.after), "\n", AlignedTable(rows),
      "Medians of the samples kept. The roof of a call is the longer of its "
      "bytes at the read bandwidth and\nits operations at the peak of its "
      "format; above 1, caches held what it read.\n");
  if (thrown > 0)
    absl::StrAppend(&text, thrown,
                    thrown == 1 ? " sample was" : " samples were",
                    absl::StrFormat(" thrown away: the machine moved by over "
                                    "%.0f %% meanwhile.\n",
                                    100 * kMostMoved));
  for (const std::string& reason : report.left_out)
    absl::StrAppend(&text, "Left out: ", reason, ".\n");
  return text;
}

std::string KernelJson(const KernelReport& report) {
  Json json = {{"processor", report.processor},
               {"instruction_set", report.instruction_set},
               {"kernel_family", report.kernel_family},
               {"threads", report.threads},
               {"rounds", report.rounds},
               {"machine",
                {{"before", MachineJson(report.before)},
                 {"after", MachineJson(report.after)}}},
               {"left_out", report.left_out}};
  Json cases = Json::array();
  for (const KernelCaseReport& c : report.cases) {
    const Figures f = FiguresOf(c, report);
    const auto rate = [&](double work) {
      return f.seconds && work > 0 ? Json(work / *f.seconds) : Json();
    };
    cases.push_back(
        {{"name", c.work.name},
         {"weights", c.work.format.empty() ? Json() : Json(c.work.format)},
         {"rows", c.work.rows},
         {"kept", c.count.kept},
         {"thrown", c.count.thrown},
         {"seconds", f.seconds ? Json(*f.seconds) : Json()},
         {"bytes", c.work.bytes},
         {"flops", c.work.flops},
         {"read_bytes_per_second", rate(c.work.bytes)},
         {"flops_per_second", rate(c.work.flops)},
         {"roof_share", f.roof_share ? Json(*f.roof_share) : Json()}});
  }
  json["cases"] = std::move(cases);
  return json.dump(2) + "\n";
}

}  // namespace phalanx
