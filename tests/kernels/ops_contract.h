#ifndef PHALANX_TESTS_KERNELS_OPS_CONTRACT_H_
#define PHALANX_TESTS_KERNELS_OPS_CONTRACT_H_

// What every backend must do, stated once and run against each of them: one
// test for each sentence of a contract comment in kernels/ops.h, a file for
// each group of ops. First answers that a person can check (model_spec.md 2.9
// among them); ops_agreement_test.cc then compares with the reference at model
// and ragged sizes, ops_exactness_test.cc asks for equal bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/backend_cases.h"
#include "tests/kernels/rig.h"

namespace phalanx {

// Half the distance between neighbours, relative to a value: what one rounding
// to nearest may cost.
inline constexpr double kF32Rounding = 0x1p-24;
inline constexpr double kBf16Rounding = 0x1p-8;

// Of a hand-checkable answer: one rounding to act, and what a few f32
// operations and a function of our own may cost.
inline double Slack(const Rig& rig) {
  return 32 * kF32Rounding + (rig.rounds() ? kBf16Rounding : 0);
}

// Each value within `slack` of what was expected, relative to that or to 1.
inline void ExpectNear(const Floats& got, const std::vector<double>& want,
                       double slack) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], slack * std::max(1.0, std::abs(want[i])))
        << "element " << i;
  }
}

// `of` is the operation, or a name that has it in it. In a test, by itself.
#define PHALANX_SKIP_IF_MISSING(backend, of)                                  \
  if (const std::string missing_op = ::phalanx::MissingOpOf((backend), (of)); \
      !missing_op.empty())                                                    \
  GTEST_SKIP() << (backend).name << " has no " << missing_op

class OpsContract : public testing::TestWithParam<BackendCase> {
 protected:
  // A test has the operation that it is of in its name.
  void SetUp() override {
    PHALANX_SKIP_IF_MISSING(
        GetParam(),
        testing::UnitTest::GetInstance()->current_test_info()->name());
  }

  std::unique_ptr<Rig> NewRig() {
    return std::make_unique<Rig>(GetParam().make(/*threads=*/1));
  }

  std::unique_ptr<Rig> owner_ = NewRig();
  Rig& rig_ = *owner_;
  Ops& ops_ = rig_.ops();
};

using OpsContractDeathTest = OpsContract;

inline std::string BackendName(
    const testing::TestParamInfo<BackendCase>& info) {
  return info.param.name;
}

}  // namespace phalanx

#define PHALANX_FOR_EVERY_BACKEND(suite)                                 \
  INSTANTIATE_TEST_SUITE_P(Backends, suite,                              \
                           testing::ValuesIn(::phalanx::BackendCases()), \
                           ::phalanx::BackendName)

#endif  // PHALANX_TESTS_KERNELS_OPS_CONTRACT_H_
