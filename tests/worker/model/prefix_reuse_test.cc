// What is kept of a sequence is as good as computing it again, to the bit
// (design.md section 6): a sequence that begins behind a kept prefix, with
// shared blocks, a copy of the last one and a copy of the state, has the logits
// of one that begins with nothing.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/units.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tp_group.h"
#include "worker/cache/prefix_cache.h"

namespace phalanx {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int64_t kMaxTokens = 256;
constexpr int64_t kBlocks = 40;
constexpr int64_t kSlots = 80;

struct Case {
  const char* model;
  int tp_size = 1;
};

void PrintTo(const Case& c, std::ostream* out) {
  // A test's name takes no dash.
  *out << (std::string(c.model) == "phalanx-mini" ? "mini" : c.model) << "_tp"
       << c.tp_size;
}

std::string ModelDir(const std::string& name) {
  return name == "phalanx-mini"
             ? std::string(SOURCE_ROOT) + "/deploy/models/phalanx-mini"
             : std::string(GOLDEN_DIR) + "/models/" + name;
}

std::unique_ptr<TpGroup> MakeGroup(const Case& c) {
  return TpGroup::MustCreate({.model_dir = ModelDir(c.model),
                              .tp_size = c.tp_size,
                              .backends = BestCpuBackends(),
                              .limits = {.max_sequences = kSlots,
                                         .max_tokens = kMaxTokens,
                                         .max_logit_rows = kMaxTokens,
                                         .max_model_len = kMaxTokens,
                                         .state_slots = kSlots,
                                         .kv_blocks = kBlocks}});
}

// A live sequence: the tokens it will have, and how far it is.
struct Sequence {
  Tokens ids;
  int64_t past = 0;
  std::vector<int32_t> blocks;
  int32_t slot = -1;
};

// The part of a scheduler that is about caches: makes plans as PrefixCache says
// they are to be made.
class Desk {
 public:
  explicit Desk(const Case& c) : group_(MakeGroup(c)) {}

  // A sequence behind the longest kept prefix of at most `most` tokens. It is
  // copied in the next step.
  Sequence Begin(const Tokens& ids, int64_t most = kMaxTokens) {
    Sequence sequence;
    sequence.ids = ids;
    const PrefixCache::Prefix prefix = cache_.Take("", ids, most);
    sequence.past = prefix.tokens;
    sequence.blocks = prefix.blocks;
    const int64_t blocks =
        CeilDivide(static_cast<int64_t>(ids.size()), kKvBlockTokens);
    const auto more = cache_.AllocateBlocks(
        blocks - static_cast<int64_t>(prefix.blocks.size()));
    sequence.slot = cache_.AllocateSlot().value();
    if (prefix.tail_block >= 0)
      plan_.block_copies.push_back({prefix.tail_block, more.value()[0]});
    if (prefix.tokens > 0)
      plan_.state_restores.push_back({prefix.slot, sequence.slot});
    sequence.blocks.insert(sequence.blocks.end(), more->begin(), more->end());
    return sequence;
  }

  // Rows up to `end` for the next step, with their logits.
  void Add(Sequence& sequence, int64_t end) {
    PlannedSequence rows;
    rows.state_slot = sequence.slot;
    rows.past = sequence.past;
    rows.token_ids.assign(sequence.ids.begin() + sequence.past,
                          sequence.ids.begin() + end);
    rows.block_table.assign(
        sequence.blocks.begin(),
        sequence.blocks.begin() + CeilDivide(end, kKvBlockTokens));
    rows.logit_rows = end - sequence.past;
    sequence.past = end;
    plan_.sequences.push_back(std::move(rows));
  }

  // The same, and what the sequence then is will be kept.
  void AddAndKeep(Sequence& sequence, int64_t end) {
    Add(sequence, end);
    kept_.push_back({sequence, cache_.ReserveSnapshot().value()});
    plan_.state_saves.push_back({sequence.slot, kept_.back().slot});
  }

  // Runs the step. Logits of all rows, in the order in which they were added.
  LogitRows Run() {
    const auto plan = Decode(Encode(plan_), group_->limits());
    CHECK(plan.ok());  // The followers get it so.
    absl::StatusOr<LogitRows> rows = group_->Run(*plan);
    CHECK(rows.ok());
    for (const auto& [sequence, slot] : kept_)
      cache_.Insert("", std::span(sequence.ids).first(sequence.past),
                    std::span(sequence.blocks)
                        .first(CeilDivide(sequence.past, kKvBlockTokens)),
                    slot);
    kept_.clear();
    plan_ = {};
    return *std::move(rows);
  }

  void End(const Sequence& sequence) {
    cache_.ReleaseBlocks(sequence.blocks);
    cache_.ReleaseSlot(sequence.slot);
  }

  // All rows of a sequence that begins with nothing, in one step.
  LogitRows Alone(const Tokens& ids) {
    Sequence sequence = Begin(ids, /*most=*/0);
    Add(sequence, static_cast<int64_t>(ids.size()));
    LogitRows rows = Run();
    End(sequence);
    return rows;
  }

  // Any ids will do here: a fixed walk through the vocabulary.
  Tokens Ids(int64_t count, int64_t start = 5) const {
    Tokens ids;
    for (int64_t i = 0; i < count; ++i)
      ids.push_back(static_cast<int32_t>((start + 37 * i + i * i % 11) %
                                         group_->config().vocab_size));
    return ids;
  }

  TpGroup& group() { return *group_; }
  PrefixCache& cache() { return cache_; }

 private:
  struct Kept {
    Sequence sequence;  // As it was then.
    int32_t slot = -1;
  };

  std::unique_ptr<TpGroup> group_;
  PrefixCache cache_{
      {.kv_blocks = kBlocks, .state_slots = kSlots, .block_tokens = 64}};
  StepPlan plan_;
  std::vector<Kept> kept_;
};

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// `rows` are those of `all` from `first` on.
void ExpectRows(const LogitRows& rows, const LogitRows& all, int64_t first,
                const std::string& what) {
  ASSERT_LE(first + rows.size(), all.size()) << what;
  for (size_t i = 0; i < rows.size(); ++i)
    ASSERT_TRUE(SameBits(rows[i], all[first + i]))
        << what << ", row " << first + i;
}

class PrefixReuse : public testing::TestWithParam<Case> {
 protected:
  Desk desk_{GetParam()};
};

// The donor goes on writing into the very blocks that the index keeps.
TEST_P(PrefixReuse, AHitIsAMissAtEveryPlaceOfABlock) {
  constexpr int64_t kFirst = 64, kLast = 64 + 65;
  const Tokens ids = desk_.Ids(kLast + 3);
  const LogitRows all = desk_.Alone(ids);
  Sequence donor = desk_.Begin(ids);
  for (int64_t n = kFirst; n <= kLast; ++n) {
    desk_.AddAndKeep(donor, n);
    desk_.Run();
  }
  desk_.Add(donor, kLast + 3);
  desk_.Run();

  for (int64_t n = kFirst; n <= kLast; ++n) {
    Sequence hit = desk_.Begin(ids, n);
    ASSERT_EQ(hit.past, n);
    desk_.Add(hit, n + 3);
    ExpectRows(desk_.Run(), all, n, "behind " + std::to_string(n));
    desk_.End(hit);
  }
}

TEST_P(PrefixReuse, AHitIsAMissForTheShortestPrompts) {
  for (const int64_t length : {2, 3}) {
    const Tokens ids = desk_.Ids(length, /*start=*/90 + length);
    const LogitRows all = desk_.Alone(ids);
    Sequence donor = desk_.Begin(ids);
    for (int64_t n = 1; n < length; ++n) {
      desk_.AddAndKeep(donor, n);
      desk_.Run();
    }
    for (int64_t n = 1; n < length; ++n) {
      Sequence hit = desk_.Begin(ids, n);
      ASSERT_EQ(hit.past, n);
      desk_.Add(hit, length);
      ExpectRows(desk_.Run(), all, n, "behind " + std::to_string(n));
    }
  }
}

TEST_P(PrefixReuse, WhoLeavesAKeptPrefixDisturbsNobody) {
  constexpr int64_t kKept = 70;
  const Tokens ids = desk_.Ids(140);
  Tokens others = ids;
  for (size_t i = kKept; i < others.size(); ++i) others[i] = 3 + i % 5;
  const LogitRows all = desk_.Alone(ids);
  const LogitRows all_others = desk_.Alone(others);
  Sequence donor = desk_.Begin(ids);
  desk_.AddAndKeep(donor, kKept);
  desk_.Run();

  // All three write to places 70.. at once, each to a block of its own.
  Sequence same = desk_.Begin(ids), other = desk_.Begin(others);
  ASSERT_EQ(same.past, kKept);
  ASSERT_EQ(other.past, kKept);
  for (int64_t end = kKept + 10; end <= 140; end += 10) {
    desk_.Add(donor, end);
    desk_.Add(other, end);
    desk_.Add(same, end);
    const LogitRows rows = desk_.Run();
    ExpectRows({rows.begin(), rows.begin() + 10}, all, end - 10, "donor");
    ExpectRows({rows.begin() + 10, rows.begin() + 20}, all_others, end - 10,
               "other");
    ExpectRows({rows.begin() + 20, rows.end()}, all, end - 10, "same");
  }
}

TEST_P(PrefixReuse, AHitAmongOthersIsAHitAlone) {
  const Tokens ids = desk_.Ids(200), fresh = desk_.Ids(40, /*start=*/777);
  const LogitRows all = desk_.Alone(ids), all_fresh = desk_.Alone(fresh);
  Sequence donor = desk_.Begin(ids);
  const std::vector<int64_t> kept = {1, 64, 65, 127, 128, 190};
  for (const int64_t n : kept) {
    desk_.AddAndKeep(donor, n);
    desk_.Run();
  }

  // One step: hits of unlike lengths, a decode step, a fresh prompt.
  desk_.Add(donor, 191);
  Sequence beside = desk_.Begin(fresh);
  desk_.Add(beside, 40);
  for (const int64_t n : kept) {
    Sequence hit = desk_.Begin(ids, n);
    ASSERT_EQ(hit.past, n);
    desk_.Add(hit, n + 7);
  }
  const LogitRows rows = desk_.Run();

  ExpectRows({rows[0]}, all, 190, "decode step");
  ExpectRows({rows.begin() + 1, rows.begin() + 41}, all_fresh, 0, "fresh");
  for (size_t i = 0; i < kept.size(); ++i)
    ExpectRows({rows.begin() + 41 + 7 * i, rows.begin() + 48 + 7 * i}, all,
               kept[i], "behind " + std::to_string(kept[i]));
}

TEST_P(PrefixReuse, APromptIsAllButItsLastTokenAndADecodeStep) {
  for (const int64_t length : {2, 3, 4, 64, 65, 66, 128, 129, 130}) {
    const Tokens ids = desk_.Ids(length);
    const LogitRows all = desk_.Alone(ids);
    Sequence cut = desk_.Begin(ids);
    desk_.Add(cut, length - 1);
    desk_.Run();
    desk_.Add(cut, length);
    ExpectRows(desk_.Run(), all, length - 1, std::to_string(length));
    desk_.End(cut);
  }
}

// The bytes of a slot, of rank 0.
std::vector<char> BytesOfSlot(TpGroup& group, int32_t slot) {
  TpGroup::Rank& rank = group.rank(0);
  const StateCache& states = rank.runner->state_cache();
  std::vector<char> bytes;
  for (int64_t layer = 0; layer < states.shape().layers; ++layer) {
    for (const Tensor& all : {states.state(layer), states.conv(layer)}) {
      const Tensor one = Rows(all, slot, 1);
      std::vector<char> part(one.elements() * ElementBytes(one.dtype));
      rank.backend->Download(one, part.data());
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
  }
  return bytes;
}

TEST_P(PrefixReuse, ASnapshotStaysAsItWasSaved) {
  const Tokens ids = desk_.Ids(100);
  Sequence donor = desk_.Begin(ids);
  desk_.AddAndKeep(donor, 50);
  desk_.Run();
  const int32_t slot = desk_.cache().Take("", ids, 50).slot;
  const std::vector<char> saved = BytesOfSlot(desk_.group(), slot);
  ASSERT_EQ(saved, BytesOfSlot(desk_.group(), donor.slot));

  Sequence hit = desk_.Begin(ids, 50);
  for (int64_t end = 60; end <= 100; end += 10) {
    desk_.Add(donor, end);
    desk_.Add(hit, end);
    desk_.Run();
  }

  EXPECT_EQ(BytesOfSlot(desk_.group(), slot), saved);
  EXPECT_NE(BytesOfSlot(desk_.group(), donor.slot), saved);
}

INSTANTIATE_TEST_SUITE_P(Models, PrefixReuse,
                         testing::Values(Case{"phalanx-mini", 1},
                                         Case{"phalanx-mini", 2},
                                         Case{"moe", 1}, Case{"moe", 2},
                                         Case{"next", 2}, Case{"dense", 2}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace phalanx
