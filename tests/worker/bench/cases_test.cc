#include "worker/bench/cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kBlockBytes = 1000;
constexpr int64_t kPlenty = int64_t{1} << 40;

ModelConfig Model() {
  ModelConfig config;
  config.max_position_embeddings = 8192;
  return config;
}

TEST(CasesOf, IsEverySizeAtEveryContext) {
  const CaseFlags flags{
      .batches = {1, 8}, .prompts = {128}, .contexts = {0, 4096}};

  const CaseList list = CasesOf(flags, Model(), kBlockBytes, kPlenty);

  EXPECT_THAT(list.cases,
              ElementsAre(BenchCase{CaseKind::kDecode, 1, 0},
                          BenchCase{CaseKind::kDecode, 8, 0},
                          BenchCase{CaseKind::kPrefill, 128, 0},
                          BenchCase{CaseKind::kDecode, 1, 4096},
                          BenchCase{CaseKind::kDecode, 8, 4096},
                          BenchCase{CaseKind::kPrefill, 128, 4096}));
  EXPECT_THAT(list.left_out, IsEmpty());
}

TEST(CasesOf, MayBeOfOneKind) {
  const CaseFlags flags{
      .batches = {1}, .prompts = {128}, .contexts = {0}, .decode = false};

  EXPECT_THAT(CasesOf(flags, Model(), kBlockBytes, kPlenty).cases,
              ElementsAre(BenchCase{CaseKind::kPrefill, 128, 0}));
}

TEST(CasesOf, LeavesOutWhatTheModelsContextDoesNotHold) {
  const CaseFlags flags{.batches = {1}, .prompts = {4097}, .contexts = {4096}};

  const CaseList list = CasesOf(flags, Model(), kBlockBytes, kPlenty);

  EXPECT_THAT(list.cases, ElementsAre(BenchCase{CaseKind::kDecode, 1, 4096}));
  EXPECT_THAT(list.left_out,
              ElementsAre("prefill 4097 at 4096: needs 8193 positions; the "
                          "model has 8192"));
}

TEST(CasesOf, LeavesOutWhatThereIsNoRoomFor) {
  const CaseFlags flags{
      .batches = {1, 2}, .prompts = {}, .contexts = {0}, .prefill = false};

  const CaseList list =
      CasesOf(flags, Model(), kBlockBytes,
              BlocksOf({CaseKind::kDecode, 1, 0}) * kBlockBytes);

  EXPECT_THAT(list.cases, ElementsAre(BenchCase{CaseKind::kDecode, 1, 0}));
  EXPECT_THAT(list.left_out,
              ElementsAre(AllOf(HasSubstr("decode 2 at 0: needs "),
                                HasSubstr("there is room for "))));
}

TEST(NeedsOf, AreThoseOfTheLargestOfEach) {
  const CaseNeeds needs = NeedsOf({{CaseKind::kDecode, 8, 0},
                                   {CaseKind::kPrefill, 512, 4096},
                                   {CaseKind::kDecode, 1, 4096}});

  EXPECT_EQ(needs.sequences, 8);
  EXPECT_EQ(needs.tokens, 4608);
  EXPECT_EQ(needs.blocks, 72);
}

}  // namespace
}  // namespace phalanx
