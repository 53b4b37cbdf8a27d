#include "worker/diagnostics.h"

#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"

namespace phalanx {
namespace {

using Json = nlohmann::json;

std::string WrittenBy(Diagnostics& diagnostics) {
  testing::internal::CaptureStderr();
  diagnostics.Write();
  return testing::internal::GetCapturedStderr();
}

RankView View() {
  RankView view;
  view.rank = 3;
  view.now.state = WorkerState::kReady;
  view.now.epoch = 7;
  view.now.steps = 99;
  view.now.counts.running = 2;
  view.now.counts.waiting = 1;
  view.active_requests = 3;
  view.step_age_seconds = 0.25;
  return view;
}

TEST(Diagnostics, SayHowTheRankIs) {
  const Json all = Json::parse(DiagnosticsJson(View()));

  EXPECT_EQ(all["event"], "diagnostics");
  EXPECT_EQ(all["rank"], 3);
  EXPECT_EQ(all["state"], "ready");
  EXPECT_EQ(all["epoch"], 7);
  EXPECT_EQ(all["steps"], 99);
  EXPECT_EQ(all["active_requests"], 3);
  EXPECT_EQ(all["step_age_seconds"], 0.25);
  EXPECT_EQ(all["counts"]["running"], 2);
  EXPECT_EQ(all["counts"]["waiting"], 1);
}

TEST(Diagnostics, AreOneLineWhateverTheDetailHolds) {
  Diagnostics diagnostics;
  RankView view = View();
  view.now.detail = "two\nlines, \xff and \"quotes\"";
  diagnostics.Set([view] { return view; });

  const std::string written = WrittenBy(diagnostics);

  EXPECT_EQ(written.find('\n'), written.size() - 1);
  EXPECT_TRUE(Json::accept(written));
}

TEST(Diagnostics, SayThatTheRankStartsBeforeAndAfterItIsSet) {
  const std::string starts =
      "{\"event\":\"diagnostics\",\"state\":\"starting\"}\n";
  Diagnostics diagnostics;
  EXPECT_EQ(WrittenBy(diagnostics), starts);
  diagnostics.Set(View);
  diagnostics.Forget();
  EXPECT_EQ(WrittenBy(diagnostics), starts);
}

}  // namespace
}  // namespace phalanx
