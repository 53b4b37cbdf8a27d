// The promises that are kept to the bit (design.md section 3): what an item
// yields depends on nothing but the item.

#include <cstring>
#include <tuple>

#include "tests/kernels/op_programs.h"
#include "tests/kernels/ops_contract.h"

namespace phalanx {
namespace {

bool SameBits(const Parts& a, const Parts& b) {
  if (a.size() != b.size()) return false;
  for (size_t part = 0; part < a.size(); ++part) {
    if (a[part].size() != b[part].size()) return false;
    if (std::memcmp(a[part].data(), b[part].data(),
                    a[part].size() * sizeof(float)) != 0)
      return false;
  }
  return true;
}

class OpsExactness
    : public testing::TestWithParam<std::tuple<BackendCase, OpProgram>> {
 protected:
  void SetUp() override { PHALANX_SKIP_IF_MISSING(backend_, program_.name); }

  // What the op yields for these items on a fresh backend.
  std::vector<Parts> Run(const std::vector<int64_t>& items, int threads = 1) {
    Rig rig(backend_.make(threads));
    return program_.run(rig, items);
  }

  const BackendCase backend_ = std::get<0>(GetParam());
  const OpProgram program_ = std::get<1>(GetParam());
  const std::vector<int64_t> all_ = Range(0, program_.items);
};

TEST_P(OpsExactness, AnItemIsTheSameAloneAndAmongOthers) {
  const std::vector<Parts> together = Run(all_);

  // Every sequence; of 33 tokens every fourth, the first and the last included.
  const int64_t step = program_.items > 8 ? 4 : 1;
  for (int64_t item = 0; item < program_.items; item += step) {
    EXPECT_TRUE(SameBits(Run({item})[0], together[item])) << "item " << item;
  }
}

TEST_P(OpsExactness, AnItemIsTheSameInABatchOfAnySize) {
  const std::vector<Parts> together = Run(all_);

  for (int64_t count : {2, 3, 4, 5, 7, 8, 13, 16, 17, 32}) {
    if (count > program_.items) break;
    const int64_t first = program_.items - count;
    const std::vector<Parts> batch = Run(Range(first, count));
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_TRUE(SameBits(batch[i], together[first + i]))
          << "item " << first + i << " in a batch of " << count;
    }
  }
}

TEST_P(OpsExactness, TwoThreadsGiveTheBitsOfOne) {
  const std::vector<Parts> one = Run(all_, /*threads=*/1);
  const std::vector<Parts> two = Run(all_, /*threads=*/2);

  for (int64_t item : all_)
    EXPECT_TRUE(SameBits(one[item], two[item])) << "item " << item;
}

TEST_P(OpsExactness, RowsMayBeFurtherApartThanTheyAreWide) {
  Rig apart(backend_.make(/*threads=*/1), /*gap=*/5);
  const std::vector<Parts> got = program_.run(apart, all_);

  const std::vector<Parts> want = Run(all_);
  for (int64_t item : all_)
    EXPECT_TRUE(SameBits(got[item], want[item])) << "item " << item;
  EXPECT_TRUE(apart.GapsUntouched());
}

TEST_P(OpsExactness, NoTokensDoNothing) {
  Rig rig(backend_.make(/*threads=*/1));

  const std::vector<Parts> results = program_.run(rig, {});

  EXPECT_TRUE(results.empty());
  EXPECT_TRUE(rig.backend().Synchronize().ok());
}

TEST_P(OpsExactness, BackendsOfOneFamilyGiveTheSameBits) {
  const std::string family = backend_.make(1)->kernel_family();
  const std::vector<Parts> mine = Run(all_);

  for (const BackendCase& other : BackendCases()) {
    if (!MissingOpOf(other, program_.name).empty()) continue;
    Rig rig(other.make(/*threads=*/1));
    if (rig.backend().kernel_family() != family) continue;
    const std::vector<Parts> theirs = program_.run(rig, all_);
    for (int64_t item : all_) {
      EXPECT_TRUE(SameBits(mine[item], theirs[item]))
          << "item " << item << " on " << other.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Backends, OpsExactness,
    testing::Combine(testing::ValuesIn(BackendCases()),
                     testing::ValuesIn(OpPrograms())),
    [](const testing::TestParamInfo<std::tuple<BackendCase, OpProgram>>& info) {
      return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
    });

}  // namespace
}  // namespace phalanx
