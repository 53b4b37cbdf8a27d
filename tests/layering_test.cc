// Who may include whom: the dependency diagram of README.md as a table, held
// against the real includes.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/source_tree.h"

namespace phalanx {
namespace {

// Module -> modules it may include besides itself and common. The module of a
// path is the longest key that is the path or a folder above it. "*" is for
// the composition roots and tests; "x/*" is x and all in it.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"common", {"proto/google"}},
    {"proto", {"proto/google"}},
    {"proto/google", {}},

    {"kernels", {}},
    {"kernels/reference", {"kernels"}},
    {"kernels/cpu", {"kernels"}},
    {"kernels/cuda_plugin", {"kernels"}},
    {"kernels/cuda", {"kernels", "kernels/cuda_plugin"}},

    {"worker/collective", {"kernels"}},
    {"worker/cache", {"kernels"}},
    {"worker/checkpoint", {"kernels"}},
    {"worker/plan", {"kernels", "worker/checkpoint"}},
    {"worker/experts", {"kernels", "worker/checkpoint"}},
    {"worker/quantise", {"kernels", "worker/checkpoint"}},
    {"worker/model",
     {"kernels", "worker/cache", "worker/collective", "worker/checkpoint",
      "worker/experts"}},
    {"worker/scheduler", {"worker/cache"}},
    {"worker/engine",
     {"kernels", "worker/cache", "worker/checkpoint", "worker/collective",
      "worker/experts", "worker/model", "worker/scheduler"}},
    {"worker/group", {"proto", "worker/collective"}},
    {"worker/server",
     {"proto", "worker/engine", "worker/experts", "worker/scheduler"}},
    {"worker/metrics",
     {"kernels", "worker/collective", "worker/engine", "worker/experts",
      "worker/scheduler"}},
    // A rank under measurement: as the daemon makes it, without servers.
    {"worker/bench",
     {"kernels", "worker", "worker/checkpoint", "worker/collective",
      "worker/engine", "worker/experts", "worker/model", "worker/scheduler"}},
    // Capacity, flags and the loop between group and engine.
    {"worker", {"proto", "kernels", "worker/*"}},
    // The only file that names a concrete backend.
    {"worker/main.cc", {"*"}},

    {"gateway/admission", {}},
    {"gateway/chat", {"gateway/chat/jinja"}},
    {"gateway/chat/jinja", {}},
    {"gateway/tokenizer", {}},
    {"gateway/router", {"proto"}},
    {"gateway/api",
     {"proto", "gateway/admission", "gateway/chat", "gateway/router",
      "gateway/tokenizer"}},
    {"gateway/metrics", {"gateway/admission", "gateway/api", "gateway/router"}},
    {"gateway/cli", {"proto", "gateway/tokenizer"}},
    {"gateway", {"proto", "gateway/*"}},

    {"tests", {"*"}},
};

bool IsWithin(const std::string& path, const std::string& module) {
  return path == module || path.starts_with(module + "/");
}

// "" if the table knows none.
std::string ModuleOf(const std::string& path) {
  std::string longest;
  for (const auto& [module, allowed] : kMayInclude)
    if (IsWithin(path, module) && module.size() > longest.size())
      longest = module;
  return longest;
}

// The module that an include leads to; "" for a third party's header.
std::string ModuleOfInclude(const std::string& include) {
  if (include.starts_with("google/rpc/")) return "proto/google";
  if (include.ends_with(".pb.h") && !include.starts_with("google/"))
    return "proto";
  return ModuleOf(include);
}

bool MayInclude(const std::string& from, const std::string& to) {
  if (from == to || to == "common") return true;
  for (const std::string& allowed : kMayInclude.at(from)) {
    if (allowed == "*" || allowed == to) return true;
    if (allowed.ends_with("/*") &&
        IsWithin(to, allowed.substr(0, allowed.size() - 2)))
      return true;
  }
  return false;
}

// Includes against the table, as lines for a person to read.
std::vector<std::string> LayeringComplaints(const SourceTree& tree) {
  std::vector<std::string> complaints;
  for (const auto& [path, lines] : tree) {
    if (!IsCpp(path)) continue;
    const std::string from = ModuleOf(path);
    if (from.empty()) {
      complaints.push_back(path + ": its folder is not in the table");
      continue;
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string include = IncludedBy(lines[i]);
      if (include.empty()) continue;
      const std::string at = path + ":" + std::to_string(i + 1) + ": ";
      const std::string to = ModuleOfInclude(include);
      if (IsCuda(path) && !include.starts_with("kernels/"))
        complaints.push_back(
            at + "nvcc compiles headers of kernels only, not " + include);
      if (to.empty() && include.find('/') == std::string::npos)
        complaints.push_back(at + include + " is not from the root");
      else if (!to.empty() && !MayInclude(from, to))
        complaints.push_back(at + from + " may not include " + to);
    }
  }
  return complaints;
}

using Complaints = std::vector<std::string>;

TEST(Layering, TheTreeKeepsToTheTable) {
  const SourceTree tree = ReadSourceTree();

  const Complaints complaints = LayeringComplaints(tree);

  ASSERT_GT(tree.size(), 100u);
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
}

TEST(Layering, TheTableNamesOnlyWhatExists) {
  const SourceTree tree = ReadSourceTree();

  for (const auto& [module, allowed] : kMayInclude) {
    const bool exists = std::any_of(
        tree.begin(), tree.end(),
        [&](const auto& file) { return IsWithin(file.first, module); });
    EXPECT_TRUE(exists) << module;
  }
}

TEST(Layering, AnIncludeThatTheTableForbidsIsFound) {
  const SourceTree tree = {
      {"worker/model/d.cc",
       {"#include \"kernels/ops.h\"", "#include \"kernels/cpu/isa.h\""}}};

  EXPECT_EQ(LayeringComplaints(tree),
            Complaints{"worker/model/d.cc:2: worker/model may not include "
                       "kernels/cpu"});
}

TEST(Layering, AGeneratedHeaderCountsAsProto) {
  const SourceTree tree = {
      {"worker/scheduler/s.h", {"#include \"worker.grpc.pb.h\""}}};

  EXPECT_EQ(
      LayeringComplaints(tree),
      Complaints{"worker/scheduler/s.h:1: worker/scheduler may not include "
                 "proto"});
}

TEST(Layering, CommonKnowsOnlyTheErrorMessage) {
  const SourceTree tree = {
      {"common/a.cc",
       {"#include \"google/rpc/status.pb.h\"", "#include \"inference.pb.h\""}}};

  EXPECT_EQ(LayeringComplaints(tree),
            Complaints{"common/a.cc:2: common may not include proto"});
}

TEST(Layering, OneSideMayNotIncludeTheOther) {
  const SourceTree tree = {
      {"gateway/main.cc", {"#include \"worker/config.h\""}}};

  EXPECT_EQ(LayeringComplaints(tree),
            Complaints{"gateway/main.cc:1: gateway may not include worker"});
}

TEST(Layering, OnlyTheWorkersMainNamesABackend) {
  const SourceTree tree = {
      {"worker/capacity.cc", {"#include \"kernels/cpu/cpu_backend.h\""}},
      {"worker/main.cc", {"#include \"kernels/cpu/cpu_backend.h\""}}};

  EXPECT_EQ(
      LayeringComplaints(tree),
      Complaints{"worker/capacity.cc:1: worker may not include kernels/cpu"});
}

TEST(Layering, AnIncludeThatIsNotFromTheRootIsFound) {
  const SourceTree tree = {{"worker/cache/a.cc", {"#include \"a.h\""}}};

  EXPECT_EQ(LayeringComplaints(tree),
            Complaints{"worker/cache/a.cc:1: a.h is not from the root"});
}

TEST(Layering, WhatNvccCompilesIncludesKernelsOnly) {
  const SourceTree tree = {
      {"kernels/cuda/a.cu",
       {"#include \"kernels/tensor.h\"", "#include \"common/check.h\""}}};

  EXPECT_EQ(LayeringComplaints(tree),
            Complaints{"kernels/cuda/a.cu:2: nvcc compiles headers of kernels "
                       "only, not common/check.h"});
}

TEST(Layering, AFolderThatTheTableDoesNotKnowIsFound) {
  const SourceTree tree = {{"toolbox/a.cc", {}}};

  EXPECT_EQ(LayeringComplaints(tree),
            Complaints{"toolbox/a.cc: its folder is not in the table"});
}

}  // namespace
}  // namespace phalanx
