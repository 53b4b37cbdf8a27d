#include "worker/bench/machine_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(double value) { return value > 0 ? Json(value) : Json(); }

Json RoofsJson(const Roofs& roofs) {
  return {{"read_bytes_per_second", OrNull(roofs.read)},
          {"f32_fma_flops", OrNull(roofs.f32_fma)},
          {"bf16_dot_flops", OrNull(roofs.bf16_dot)},
          {"int8_dot_ops", OrNull(roofs.int8_dot)}};
}

std::string Giga(double value, const char* format) {
  if (value <= 0) return "-";
  return *format == '1' ? absl::StrFormat("%.1f", value / 1e9)
                        : absl::StrFormat("%.0f", value / 1e9);
}

std::vector<std::string> Row(const char* name, const Roofs& roofs,
                             double ping_pong) {
  return {name,
          Giga(roofs.read, "1"),
          Giga(roofs.f32_fma, "0"),
          Giga(roofs.bf16_dot, "0"),
          Giga(roofs.int8_dot, "0"),
          ping_pong > 0 ? absl::StrFormat("%.0f", ping_pong * 1e9) : ""};
}

}  // namespace

Json MachineJson(const MachineRoofs& roofs) {
  return {{"one", RoofsJson(roofs.one)},
          {"all", RoofsJson(roofs.all)},
          {"ping_pong_ns", OrNull(roofs.ping_pong_seconds * 1e9)}};
}

std::string MachineText(const MachineRoofs& before, const MachineRoofs& after) {
  return AlignedTable({{"machine", "read GB/s", "f32 FMA GFLOP/s",
                        "bf16 dot GFLOP/s", "int8 dot Gop/s", "ping-pong ns"},
                       Row("before, 1 thread", before.one, 0),
                       Row("before, all", before.all, before.ping_pong_seconds),
                       Row("after, 1 thread", after.one, 0),
                       Row("after, all", after.all, after.ping_pong_seconds)});
}

std::string AlignedTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      if (i == 0)
        absl::StrAppend(&line, row[i], pad);
      else
        absl::StrAppend(&line, "  ", pad, row[i]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace phalanx
