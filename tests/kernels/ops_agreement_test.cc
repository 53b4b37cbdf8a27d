// Every op of every backend against the reference, at model and ragged sizes.

#include <cmath>
#include <tuple>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/op_programs.h"
#include "tests/kernels/ops_contract.h"

namespace phalanx {
namespace {

// A value below this may be flushed to zero by a served backend.
constexpr double kSmallest = 0x1p-120;

double RootMeanSquare(const std::vector<Parts>& results, size_t part) {
  double sum = 0, count = 0;
  for (const Parts& item : results) {
    for (float value : item[part]) sum += double{value} * value;
    count += static_cast<double>(item[part].size());
  }
  return std::sqrt(sum / count);
}

void ExpectAgree(const std::vector<Parts>& got, const std::vector<Parts>& want,
                 const std::vector<Tolerance>& tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t part = 0; part < tolerance.size(); ++part) {
    const double rms = RootMeanSquare(want, part);
    for (size_t item = 0; item < want.size(); ++item) {
      ASSERT_EQ(got[item].size(), tolerance.size());
      ASSERT_EQ(got[item][part].size(), want[item][part].size());
      for (size_t i = 0; i < want[item][part].size(); ++i) {
        const double value = want[item][part][i];
        ASSERT_NEAR(got[item][part][i], value,
                    tolerance[part].of_value * std::abs(value) +
                        tolerance[part].of_rms * rms + kSmallest)
            << "part " << part << ", item " << item << ", element " << i
            << ", RMS " << rms;
      }
    }
  }
}

class OpsAgreement
    : public testing::TestWithParam<std::tuple<BackendCase, OpProgram>> {};

TEST_P(OpsAgreement, OfAllItemsWithTheReference) {
  const auto& [backend, program] = GetParam();
  PHALANX_SKIP_IF_MISSING(backend, program.name);
  Rig rig(backend.make(/*threads=*/2));
  Rig oracle(std::make_unique<ReferenceBackend>());
  const std::vector<int64_t> items = Range(0, program.items);

  const std::vector<Parts> got = program.run(rig, items);

  ExpectAgree(got, program.run(oracle, items), program.tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Backends, OpsAgreement,
    testing::Combine(testing::ValuesIn(BackendCases()),
                     testing::ValuesIn(OpPrograms())),
    [](const testing::TestParamInfo<std::tuple<BackendCase, OpProgram>>& info) {
      return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
    });

}  // namespace
}  // namespace phalanx
