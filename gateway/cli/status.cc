#include "gateway/cli/status.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "gateway/cli/client.h"
#include "gateway/cli/event_json.h"
#include "gateway/cli/progress_bar.h"

namespace phalanx {
namespace {

using Row = std::vector<std::string>;

// Columns as wide as their widest cell, two spaces apart.
std::string Table(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      absl::StrAppend(&line, "  ", row[i],
                      std::string(widths[i] - row[i].size(), ' '));
    absl::StrAppend(
        &text, std::string(absl::StripTrailingAsciiWhitespace(line)), "\n");
  }
  return text;
}

std::string Bytes(int64_t bytes) {
  double value = static_cast<double>(bytes);
  for (const char* unit : {"B", "KiB", "MiB"}) {
    if (value < 1024)
      return absl::StrFormat(*unit == 'B' ? "%.0f %s" : "%.1f %s", value, unit);
    value /= 1024;
  }
  return absl::StrFormat("%.1f GiB", value);
}

// RANK_STATE_READY -> ready.
std::string StateWord(v1::RankState state) {
  constexpr size_t kPrefix = sizeof("RANK_STATE_") - 1;
  const std::string name = v1::RankState_Name(state);
  return name.size() > kPrefix ? absl::AsciiStrToLower(name.substr(kPrefix))
                               : absl::StrCat(state);
}

std::string Used(int64_t used, int64_t total) {
  return absl::StrCat(used, "/", total);
}

// The categories of memory of any rank, in the order of first sight.
std::vector<std::string> Categories(const v1::GroupStatus& group) {
  std::vector<std::string> categories;
  for (const v1::RankStatus& rank : group.ranks())
    for (const v1::MemoryUse& use : rank.worker().memory())
      if (std::find(categories.begin(), categories.end(), use.category()) ==
          categories.end())
        categories.push_back(use.category());
  return categories;
}

std::string BytesOf(const v1::WorkerStatus& worker, const std::string& name) {
  for (const v1::MemoryUse& use : worker.memory())
    if (use.category() == name) return Bytes(use.bytes());
  return "-";
}

// What a rank holds of all categories, the padding of layouts included.
std::string Held(const v1::WorkerStatus& worker) {
  int64_t bytes = 0;
  for (const v1::MemoryUse& use : worker.memory())
    bytes += use.allocated_bytes();
  return Bytes(bytes);
}

// The state, and while it loads how far that is.
std::string StateText(const v1::WorkerStatus& worker) {
  const std::string word = StateWord(worker.state());
  if (worker.state() != v1::RANK_STATE_LOADING) return word;
  return absl::StrFormat("%s %d%%", word, Percent(worker.load_progress()));
}

// How weights are held: resident, or offload with its bank, and in which
// format; of the first rank that says.
std::string WeightsText(const v1::GroupStatus& group) {
  for (const v1::RankStatus& rank : group.ranks()) {
    const v1::WorkerStatus& worker = rank.worker();
    if (worker.moe_mode().empty()) continue;
    return absl::StrCat("  experts ", worker.moe_mode(),
                        worker.offload_bank().empty() ? "" : ", bank ",
                        worker.offload_bank(), "  weights ",
                        worker.model().weight_format());
  }
  return "";
}

std::string GroupText(const v1::GroupStatus& group) {
  const std::vector<std::string> categories = Categories(group);
  Row head = {"rank", "state", "epoch", "steps", "kv blocks", "gdn slots"};
  head.insert(head.end(), categories.begin(), categories.end());
  for (const char* name :
       {"held", "plan", "budget", "threads", "isa", "pid", "metrics"})
    head.push_back(name);
  std::vector<Row> rows = {head};
  std::string remarks;
  for (int i = 0; i < group.ranks_size(); ++i) {
    const v1::RankStatus& rank = group.ranks(i);
    const v1::WorkerStatus& w = rank.worker();
    if (!rank.reachable()) {
      rows.push_back({absl::StrCat(i), "unreachable"});
      absl::StrAppend(&remarks, "  rank ", i, " at ", rank.address(), ": ",
                      rank.error(), "\n");
      continue;
    }
    Row row = {absl::StrCat(i),
               StateText(w),
               absl::StrCat(w.epoch()),
               absl::StrCat(w.steps()),
               Used(w.kv_blocks_used(), w.kv_blocks_total()),
               Used(w.state_slots_used(), w.state_slots_total())};
    for (const std::string& name : categories) row.push_back(BytesOf(w, name));
    row.push_back(Held(w));
    row.push_back(Bytes(w.planned_bytes()));
    row.push_back(Bytes(w.memory_budget_bytes()));
    row.push_back(absl::StrCat(w.threads()));
    row.push_back(w.instruction_set());
    row.push_back(absl::StrCat(w.pid()));
    row.push_back(w.metrics_address());
    rows.push_back(row);
    if (!w.detail().empty())
      absl::StrAppend(&remarks, "  rank ", i, ": ", w.detail(), "\n");
  }
  // Ranks that have nothing to say may still be no group of this gateway's.
  if (remarks.empty() && !group.detail().empty())
    remarks = absl::StrCat("  ", group.detail(), "\n");
  return absl::StrCat("group ", group.name(), "  ", group.state(), "  epoch ",
                      group.epoch(), "  ranks ", group.ranks_size(),
                      "  streams ", group.streams(), WeightsText(group), "\n",
                      Table(rows), remarks);
}

}  // namespace

void AddStatusFlags(CLI::App& verb, StatusOptions& options) {
  verb.add_option("--address", options.address,
                  "The operators' port, HOST:PORT; that of the last `phalanx "
                  "serve` if not given");
  verb.add_flag("--json", options.json, "One JSON object, for programs");
  verb.footer(
      "Examples:\n"
      "  phalanx status\n"
      "  phalanx status --json | jq '.groups[0].ranks[].worker.state'");
}

std::string StatusText(const v1::GetStatusResponse& status) {
  std::string text = absl::StrFormat(
      "gateway %s  %s%s  model %s  requests %d of %d  up %.0f s%s\n",
      status.version(), status.state(), status.closed() ? ", closed" : "",
      status.model(), status.requests_running(), status.requests_limit(),
      status.uptime_seconds(),
      status.metrics_address().empty()
          ? ""
          : absl::StrCat("  metrics ", status.metrics_address()));
  for (const v1::GroupStatus& group : status.groups())
    absl::StrAppend(&text, status.groups_size() > 1 ? "\n" : "",
                    GroupText(group));
  return text;
}

int RunStatus(const StatusOptions& options) {
  const auto address = FindAdminAddress(options.address);
  if (!address.ok()) return Fail("status", address.status());
  const auto admin = v1::Admin::NewStub(ChannelTo(*address));
  const auto status = FetchStatus(*admin);
  if (!status.ok()) return Fail("status", status.status());
  const std::string text = options.json
                               ? absl::StrCat(MessageJson(*status), "\n")
                               : StatusText(*status);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace phalanx
