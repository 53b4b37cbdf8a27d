#include "gateway/cli/choice_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

v1::GenerateEvent Delta(int choice, const std::string& text) {
  v1::GenerateEvent event;
  event.mutable_delta()->set_index(choice);
  event.mutable_delta()->set_text(text);
  return event;
}

v1::GenerateEvent Finished(int choice) {
  v1::GenerateEvent event;
  event.mutable_finished()->set_index(choice);
  return event;
}

class ChoiceOrderTest : public testing::Test {
 protected:
  std::vector<std::string> shown_;
  ChoiceOrder order_{[this](const v1::GenerateEvent& event) {
    shown_.push_back(event.has_delta() ? event.delta().text()
                     : event.has_finished()
                         ? absl::StrCat("end ", event.finished().index())
                         : "other");
  }};
};

TEST_F(ChoiceOrderTest, TheFirstIsShownAsItComes) {
  order_.Add(Delta(0, "a"));
  EXPECT_THAT(shown_, ElementsAre("a"));
  order_.Add(Delta(0, "b"));
  EXPECT_THAT(shown_, ElementsAre("a", "b"));
}

TEST_F(ChoiceOrderTest, ALaterOneWaitsForAllBeforeIt) {
  order_.Add(Delta(2, "e"));
  order_.Add(Delta(1, "c"));
  order_.Add(Finished(1));
  order_.Add(Delta(0, "a"));
  order_.Add(Finished(2));
  EXPECT_THAT(shown_, ElementsAre("a"));

  order_.Add(Finished(0));

  EXPECT_THAT(shown_, ElementsAre("a", "end 0", "c", "end 1", "e", "end 2"));
}

TEST_F(ChoiceOrderTest, ALaterOneGoesOnAsItComesOnceItsTurnHasCome) {
  order_.Add(Delta(1, "b"));
  order_.Add(Finished(0));
  order_.Add(Delta(1, "c"));

  EXPECT_THAT(shown_, ElementsAre("end 0", "b", "c"));
}

TEST_F(ChoiceOrderTest, WhatBelongsToNoChoiceIsShownAtOnce) {
  v1::GenerateEvent notice;
  notice.mutable_notice();
  order_.Add(Delta(1, "b"));
  order_.Add(notice);

  EXPECT_THAT(shown_, ElementsAre("other"));
}

TEST_F(ChoiceOrderTest, AnEarlyEndShowsWhatIsHeld) {
  order_.Add(Delta(2, "c"));
  order_.Add(Delta(1, "b"));

  order_.End();

  EXPECT_THAT(shown_, ElementsAre("b", "c"));
}

}  // namespace
}  // namespace phalanx
