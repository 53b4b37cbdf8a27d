#include "common/metrics/metric_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/metric_text.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr MetricFacts kCounter = {"phalanx_things_total", "Things."};
constexpr MetricFacts kGauge = {"phalanx_level", "A level."};
constexpr MetricFacts kHistogram = {"phalanx_seconds", "Seconds."};

TEST(MetricRegistry, ASeriesIsThereAtZeroOnceItIsAdded) {
  MetricRegistry registry;

  registry.AddCounter(kCounter, {{"kind", "a"}});

  EXPECT_EQ(SeriesValue(registry.Text(), "phalanx_things_total{kind=\"a\"}"),
            0);
}

TEST(MetricRegistry, ACounterCounts) {
  MetricRegistry registry;
  prometheus::Counter& counter = registry.AddCounter(kCounter);

  counter.Increment(3);

  EXPECT_EQ(SeriesValue(registry.Text(), "phalanx_things_total"), 3);
}

TEST(MetricRegistry, TheSameNameAndLabelsAreTheSameSeries) {
  MetricRegistry registry;

  prometheus::Gauge& first = registry.AddGauge(kGauge, {{"a", "1"}});
  prometheus::Gauge& again = registry.AddGauge(kGauge, {{"a", "1"}});

  EXPECT_EQ(&first, &again);
}

TEST(MetricRegistry, AHistogramHasItsBoundsAndTheInfiniteOne) {
  MetricRegistry registry;

  registry.AddHistogram(kHistogram, {.1, 1}).Observe(.5);

  const std::string text = registry.Text();
  EXPECT_EQ(SeriesValue(text, "phalanx_seconds_bucket{le=\"0.1\"}"), 0);
  EXPECT_EQ(SeriesValue(text, "phalanx_seconds_bucket{le=\"1\"}"), 1);
  EXPECT_EQ(SeriesValue(text, "phalanx_seconds_bucket{le=\"+Inf\"}"), 1);
}

TEST(MetricRegistry, EverySeriesCarriesTheConstantLabels) {
  MetricRegistry registry(MetricLabels{{"rank", "3"}});
  registry.AddCounter(kCounter);
  registry.AddReader(
      [](MetricReadings& readings) { readings.Gauge(kGauge, 7); });

  const std::string text = registry.Text();

  EXPECT_EQ(SeriesValue(text, "phalanx_things_total{rank=\"3\"}"), 0);
  EXPECT_EQ(SeriesValue(text, "phalanx_level{rank=\"3\"}"), 7);
}

TEST(MetricRegistry, AReaderIsAskedAtEachScrape) {
  MetricRegistry registry;
  double level = 1;
  registry.AddReader(
      [&](MetricReadings& readings) { readings.Gauge(kGauge, level); });

  const std::string before = registry.Text();
  level = 2;
  const std::string after = registry.Text();

  EXPECT_EQ(SeriesValue(before, "phalanx_level"), 1);
  EXPECT_EQ(SeriesValue(after, "phalanx_level"), 2);
}

TEST(MetricRegistry, AReadersFamilyHasOneHeadForAllItsSeries) {
  MetricRegistry registry;
  registry.AddReader([](MetricReadings& readings) {
    readings.Counter(kCounter, 1, {{"kind", "a"}});
    readings.Gauge(kGauge, 5);
    readings.Counter(kCounter, 2, {{"kind", "b"}});
  });

  EXPECT_THAT(registry.Text(),
              HasSubstr("# TYPE phalanx_things_total counter\n"
                        "phalanx_things_total{kind=\"a\"} 1\n"
                        "phalanx_things_total{kind=\"b\"} 2\n"));
}

TEST(MetricRegistry, LabelsOfAnyTextAreEscaped) {
  MetricRegistry registry;

  registry.AddGauge(kGauge, {{"model", "a\"b\\c\nd"}});

  EXPECT_THAT(registry.Text(),
              HasSubstr("phalanx_level{model=\"a\\\"b\\\\c\\nd\"} 0"));
}

TEST(MetricRegistryDeathTest, AHelpOfTwoLinesIsABug) {
  MetricRegistry registry;

  EXPECT_DEATH(registry.AddCounter({"phalanx_a_total", "one\ntwo"}), "help");
}

TEST(MetricRegistryDeathTest, ANameThatPrometheusRefusesIsABug) {
  MetricRegistry registry;

  EXPECT_DEATH(registry.AddCounter({"phalanx-a", "Help."}), "CheckMetricName");
}

TEST(ExponentialBounds, GrowByTheFactor) {
  EXPECT_THAT(ExponentialBounds(1, 4, 4), ElementsAre(1, 4, 16, 64));
}

}  // namespace
}  // namespace phalanx
