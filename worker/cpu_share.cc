#include "worker/cpu_share.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace phalanx {
namespace {

// The kernel's form of a set: "0-3,8,10-11". What cannot be read is left out.
std::vector<int> ReadCpuList(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<int> cpus;
  for (const absl::string_view range :
       absl::StrSplit(absl::StripAsciiWhitespace(text), ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
    int first, last;
    if (!absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 ||
        last >= CPU_SETSIZE)
      continue;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

// CPU -> node. Nodes need not be numbered without holes.
std::map<int, int> ReadNodes(const std::string& root) {
  std::map<int, int> nodes;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/node", none)) {
    const std::string name = entry.path().filename();
    absl::string_view number = name;
    int node;
    if (!absl::ConsumePrefix(&number, "node") ||
        !absl::SimpleAtoi(number, &node))
      continue;
    for (const int cpu : ReadCpuList(entry.path() / "cpulist"))
      nodes[cpu] = node;
  }
  return nodes;
}

// The CPUs of a node that ranks are given, siblings side by side.
using Node = std::vector<int>;

// Node by node. one_a_core: without the siblings of a CPU that is there.
std::vector<Node> NodesOf(std::vector<Cpu> cpus, bool one_a_core) {
  std::sort(cpus.begin(), cpus.end(), [](const Cpu& a, const Cpu& b) {
    return std::tie(a.node, a.core, a.id) < std::tie(b.node, b.core, b.id);
  });
  if (one_a_core)
    cpus.erase(std::unique(cpus.begin(), cpus.end(),
                           [](const Cpu& a, const Cpu& b) {
                             return a.node == b.node && a.core == b.core;
                           }),
               cpus.end());
  std::vector<Node> nodes;
  for (size_t i = 0; i < cpus.size(); ++i) {
    if (i == 0 || cpus[i].node != cpus[i - 1].node) nodes.emplace_back();
    nodes.back().push_back(cpus[i].id);
  }
  return nodes;
}

int CountCpus(const std::vector<Node>& nodes) {
  int count = 0;
  for (const Node& node : nodes) count += static_cast<int>(node.size());
  return count;
}

// How many ranks of `threads` each node gets, as evenly as there is room; empty
// if they do not all fit into nodes.
std::vector<int> RanksOfNodes(const std::vector<Node>& nodes, int ranks,
                              int threads) {
  std::vector<int> given(nodes.size(), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    int best = -1;
    for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
      const int room = static_cast<int>(nodes[n].size()) / threads;
      if (given[n] < room && (best < 0 || given[n] < given[best])) best = n;
    }
    if (best < 0) return {};
    ++given[best];
  }
  return given;
}

// The CPUs of `rank`, where every rank lies within a node.
std::vector<int> ShareWithin(const std::vector<Node>& nodes,
                             const std::vector<int>& given, int rank,
                             int threads) {
  size_t n = 0;
  for (; rank >= given[n]; ++n) rank -= given[n];
  const auto first = nodes[n].begin() + rank * threads;
  return std::vector<int>(first, first + threads);
}

// The same where shares follow each other through all nodes.
std::vector<int> ShareAcross(const std::vector<Node>& nodes, int rank,
                             int threads) {
  std::vector<int> all;
  for (const Node& node : nodes)
    all.insert(all.end(), node.begin(), node.end());
  const auto first = all.begin() + rank * threads;
  return std::vector<int>(first, first + threads);
}

}  // namespace

std::vector<Cpu> DescribeCpus(const std::vector<int>& ids,
                              const std::string& root) {
  const std::map<int, int> nodes = ReadNodes(root);
  std::vector<Cpu> cpus;
  for (const int id : ids) {
    const std::vector<int> siblings = ReadCpuList(
        absl::StrCat(root, "/cpu/cpu", id, "/topology/thread_siblings_list"));
    const auto node = nodes.find(id);
    cpus.push_back({.id = id,
                    .node = node == nodes.end() ? 0 : node->second,
                    .core = siblings.empty() ? id : siblings.front()});
  }
  return cpus;
}

std::vector<Cpu> AllowedCpus(const std::string& root) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> ids;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) ids.push_back(cpu);
  }
  if (ids.empty()) ids.push_back(0);
  return DescribeCpus(ids, root);
}

CpuShare ShareCpus(const std::vector<Cpu>& allowed, int rank, int tp_size,
                   int threads) {
  const std::vector<Node> cores = NodesOf(allowed, /*one_a_core=*/true);
  CpuShare share;
  share.threads =
      threads > 0 ? threads : std::max(1, CountCpus(cores) / tp_size);
  const int wanted = share.threads * tp_size;
  share.spin = wanted <= static_cast<int>(allowed.size());
  if (!share.spin) return share;
  const std::vector<Node> nodes = wanted <= CountCpus(cores)
                                      ? cores
                                      : NodesOf(allowed, /*one_a_core=*/false);
  const int fewest =
      threads > 0 ? share.threads : share.threads - share.threads / 4;
  for (int within = share.threads; within >= fewest; --within) {
    const std::vector<int> given = RanksOfNodes(nodes, tp_size, within);
    if (given.empty()) continue;
    share.threads = within;
    share.cpus = ShareWithin(nodes, given, rank, within);
    return share;
  }
  share.cpus = ShareAcross(nodes, rank, share.threads);
  return share;
}

StayOnCpus::StayOnCpus(const std::vector<int>& cpus) {
  CPU_ZERO(&stay_);
  for (const int cpu : cpus) CPU_SET(cpu, &stay_);
  moved_ = !cpus.empty() &&
           sched_getaffinity(0, sizeof(before_), &before_) == 0 &&
           sched_setaffinity(0, sizeof(stay_), &stay_) == 0;
}

StayOnCpus::~StayOnCpus() {
  cpu_set_t now;
  // Who was pinned meanwhile stays so.
  if (moved_ && sched_getaffinity(0, sizeof(now), &now) == 0 &&
      CPU_EQUAL(&now, &stay_))
    sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace phalanx
