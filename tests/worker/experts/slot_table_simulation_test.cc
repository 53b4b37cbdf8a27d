// The slot table under thousands of random events, beside a plain twin that
// keeps a list of experts in the order of their last use. After each step these
// hold:
//
//   1. An expert is in at most one slot, and a slot has at most one expert:
//      Find, expert and state say the same, both ways.
//   2. A pinned slot, or one that is being fetched, keeps its expert.
//   3. Taken for a new expert is a free slot while there is one; then the
//      ready, unpinned one whose last use is oldest (the lower slot where never
//      used); none where all are pinned or being fetched.
//   4. used() counts the slots that are not free, and free + used are all.
//
// PHALANX_TEST_SEED picks another world; a failure prints the seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "worker/experts/slot_table.h"

namespace phalanx {
namespace {

constexpr int kWorlds = 8;
constexpr int kStepsPerWorld = 5000;

uint64_t BaseSeed() {
  const char* text = std::getenv("PHALANX_TEST_SEED");
  return text == nullptr ? 20261130 : std::strtoull(text, nullptr, 10);
}

// What the twin knows of a slot that is not free.
struct Held {
  ExpertId id;
  bool ready = false;
  int pins = 0;
  int64_t last_use = 0;
};

class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed),
        layers_(static_cast<int>(Draw(1, 5))),
        experts_(static_cast<int>(Draw(1, 12))),
        slots_(Draw(1, layers_ * experts_)),
        table_(slots_, layers_, experts_) {}

  void Run() {
    for (int step = 0; step < kStepsPerWorld; ++step) {
      ASSERT_NO_FATAL_FAILURE(Step());
      ASSERT_NO_FATAL_FAILURE(CheckAll());
    }
    EXPECT_GT(evictions_ + (slots_ == layers_ * experts_), 0);
  }

 private:
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  void Step() {
    switch (Draw(0, 5)) {
      case 0:
        return Take();
      case 1:
        return Change([](const Held& held) { return !held.ready; },
                      [this](int64_t slot, Held& held) {
                        table_.SetReady(slot);
                        held.ready = true;
                      });
      case 2:
        if (Draw(0, 3) > 0) return;
        return Change(
            [](const Held& held) { return !held.ready && held.pins == 0; },
            [this](int64_t slot, Held&) {
              table_.Release(slot);
              held_.erase(slot);
            });
      case 3:
        return Change([](const Held&) { return true; },
                      [this](int64_t slot, Held& held) {
                        table_.Use(slot);
                        held.last_use = ++uses_;
                      });
      case 4:
        return Change([](const Held& held) { return held.pins < 3; },
                      [this](int64_t slot, Held& held) {
                        table_.Pin(slot);
                        ++held.pins;
                      });
      default:
        return Change([](const Held& held) { return held.pins > 0; },
                      [this](int64_t slot, Held& held) {
                        table_.Unpin(slot);
                        --held.pins;
                      });
    }
  }

  // Does `change` to a random slot of those that `fits`.
  template <typename Fits, typename Change_>
  void Change(Fits fits, Change_ change) {
    std::vector<int64_t> slots;
    for (const auto& [slot, held] : held_)
      if (fits(held)) slots.push_back(slot);
    if (slots.empty()) return;
    const int64_t slot = slots[static_cast<size_t>(
        Draw(0, static_cast<int64_t>(slots.size()) - 1))];
    change(slot, held_.at(slot));
  }

  void Take() {
    const ExpertId id{static_cast<int>(Draw(0, layers_ - 1)),
                      static_cast<int>(Draw(0, experts_ - 1))};
    if (table_.Find(id) != SlotTable::kNone) return;
    std::vector<std::tuple<int64_t, int64_t>> evictable;
    for (const auto& [slot, held] : held_)
      if (held.ready && held.pins == 0)
        evictable.push_back({held.last_use, slot});
    const bool full = static_cast<int64_t>(held_.size()) == slots_;

    const int64_t slot = table_.Take(id);

    if (!full) {
      ASSERT_NE(slot, SlotTable::kNone);
      ASSERT_EQ(held_.count(slot), 0u);
    } else if (evictable.empty()) {
      ASSERT_EQ(slot, SlotTable::kNone);
      return;
    } else {
      ASSERT_EQ(slot, std::get<1>(*std::min_element(evictable.begin(),
                                                    evictable.end())));
      ++evictions_;
    }
    held_[slot] = {.id = id};
  }

  void CheckAll() {
    ASSERT_EQ(table_.used(), static_cast<int64_t>(held_.size()));
    std::map<std::pair<int, int>, int64_t> where;
    for (int64_t slot = 0; slot < slots_; ++slot) {
      const auto it = held_.find(slot);
      if (it == held_.end()) {
        ASSERT_EQ(table_.state(slot), SlotState::kFree);
        continue;
      }
      const Held& held = it->second;
      ASSERT_EQ(table_.state(slot),
                held.ready ? SlotState::kReady : SlotState::kFetching);
      ASSERT_EQ(table_.expert(slot), held.id);
      ASSERT_TRUE(where.insert({{held.id.layer, held.id.expert}, slot}).second);
    }
    for (int layer = 0; layer < layers_; ++layer) {
      for (int e = 0; e < experts_; ++e) {
        const auto it = where.find({layer, e});
        ASSERT_EQ(table_.Find({layer, e}),
                  it == where.end() ? SlotTable::kNone : it->second);
      }
    }
  }

  std::mt19937_64 random_;
  const int layers_;
  const int experts_;
  const int64_t slots_;
  SlotTable table_;
  std::map<int64_t, Held> held_;
  int64_t uses_ = 0;
  int64_t evictions_ = 0;
};

class SlotTableSimulation : public testing::TestWithParam<int> {};

TEST_P(SlotTableSimulation, KeepsEveryInvariantAfterEachStep) {
  const uint64_t seed = BaseSeed() + static_cast<uint64_t>(GetParam());
  SCOPED_TRACE("PHALANX_TEST_SEED=" + std::to_string(seed));
  World world(seed);

  world.Run();
}

INSTANTIATE_TEST_SUITE_P(Worlds, SlotTableSimulation,
                         testing::Range(0, kWorlds));

}  // namespace
}  // namespace phalanx
