#include "worker/bench/product_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Reads 100 bytes and does 400 operations a second.
constexpr Roofs kMachine{.read = 100, .bf16_dot = 400, .int8_dot = 1600};

// 100 bytes of a bf16 matrix, by so many rows.
Product OfRows(double rows) {
  return {.part = Part::kExperts,
          .peak = Peak::kBf16,
          .bytes = 100,
          .flops = 100 * rows};
}

ProductTable TableOf(const std::vector<Product>& products) {
  ProductTable table;
  for (const Product& product : products) table.Add(product);
  return table;
}

double Seconds(const ProductTable& table, Part part) {
  return (*table.LeastSeconds(kMachine))[static_cast<size_t>(part)];
}

TEST(ProductTable, AProductOfFewRowsTakesTheTimeOfItsBytes) {
  EXPECT_DOUBLE_EQ(Seconds(TableOf({OfRows(2)}), Part::kExperts), 1);
}

TEST(ProductTable, AProductOfManyRowsTakesTheTimeOfItsOperations) {
  EXPECT_DOUBLE_EQ(Seconds(TableOf({OfRows(12)}), Part::kExperts), 3);
}

TEST(ProductTable, ProductsAreBoundEachByItself) {
  // Together they read for 2 s and compute for 3.25 s.
  EXPECT_DOUBLE_EQ(Seconds(TableOf({OfRows(1), OfRows(12)}), Part::kExperts),
                   4);
}

TEST(ProductTable, AProductHasThePeakOfItsFormat) {
  Product product = OfRows(32);
  product.peak = Peak::kInt8;

  EXPECT_DOUBLE_EQ(Seconds(TableOf({product}), Part::kExperts), 2);
}

TEST(ProductTable, PartsHaveTimesOfTheirOwn) {
  Product head = OfRows(12);
  head.part = Part::kHead;
  const ProductTable table = TableOf({OfRows(1), head});

  EXPECT_DOUBLE_EQ(Seconds(table, Part::kExperts), 1);
  EXPECT_DOUBLE_EQ(Seconds(table, Part::kHead), 3);
  EXPECT_DOUBLE_EQ(Seconds(table, Part::kDense), 0);
}

TEST(ProductTable, HasNoTimeOnAMachineWithoutTheInstruction) {
  EXPECT_EQ(TableOf({OfRows(1)}).LeastSeconds({.read = 100, .int8_dot = 1}),
            std::nullopt);
}

TEST(ProductTable, ProductsAlikeAreOneEntry) {
  const Product both = {
      .part = Part::kExperts, .peak = Peak::kBf16, .bytes = 200, .flops = 600};

  EXPECT_THAT(TableOf({OfRows(3), OfRows(3)}).entries(), ElementsAre(both));
}

TEST(ProductTable, AProductIsLikeAnyNumberOfItself) {
  // A third of an operation a byte, which no double is.
  const Product one = {.bytes = 3 * 1001, .flops = 1001};
  const Product many = {.bytes = 3 * 1001 * 7.0, .flops = 1001 * 7.0};

  EXPECT_EQ(TableOf({one, many}).entries().size(), 1u);
}

TEST(ProductTable, ProductsOfDifferentIntensityAreEntriesOfTheirOwn) {
  EXPECT_THAT(TableOf({OfRows(3), OfRows(4)}).entries(),
              UnorderedElementsAre(OfRows(3), OfRows(4)));
}

TEST(ProductTable, SumsAllItsEntries) {
  const ProductTable table = TableOf({OfRows(3), OfRows(4)});

  EXPECT_EQ(table.bytes(), 200);
  EXPECT_EQ(table.flops(), 700);
}

}  // namespace
}  // namespace phalanx
