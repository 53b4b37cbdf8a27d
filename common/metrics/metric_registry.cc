#include "common/metrics/metric_registry.h"

#include <prometheus/check_names.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <sstream>
#include <utility>

#include "common/check.h"

namespace phalanx {
namespace {

void CheckFacts(const MetricFacts& facts) {
  CHECK(prometheus::CheckMetricName(facts.name));
  CHECK(facts.help[0] != '\0');
  CHECK(std::strpbrk(facts.help, "\n\\") == nullptr);
}

}  // namespace

void MetricReadings::Add(const MetricFacts& facts, prometheus::MetricType type,
                         double value, const MetricLabels& labels) {
  auto family =
      std::find_if(families_.begin(), families_.end(),
                   [&](const auto& one) { return one.name == facts.name; });
  if (family == families_.end()) {
    CheckFacts(facts);
    families_.push_back(
        {.name = facts.name, .help = facts.help, .type = type, .metric = {}});
    family = std::prev(families_.end());
  }
  CHECK(family->type == type);
  prometheus::ClientMetric& metric = family->metric.emplace_back();
  for (const auto& [name, text] : constant_)
    metric.label.push_back({name, text});
  for (const auto& [name, text] : labels) metric.label.push_back({name, text});
  metric.gauge.value = metric.counter.value = value;
}

void MetricReadings::Gauge(const MetricFacts& facts, double value,
                           const MetricLabels& labels) {
  Add(facts, prometheus::MetricType::Gauge, value, labels);
}

void MetricReadings::Counter(const MetricFacts& facts, double value,
                             const MetricLabels& labels) {
  Add(facts, prometheus::MetricType::Counter, value, labels);
}

MetricRegistry::MetricRegistry(MetricLabels constant)
    : constant_(std::move(constant)) {}

prometheus::Counter& MetricRegistry::AddCounter(const MetricFacts& facts,
                                                const MetricLabels& labels) {
  CheckFacts(facts);
  return prometheus::BuildCounter()
      .Name(facts.name)
      .Help(facts.help)
      .Labels(constant_)
      .Register(registry_)
      .Add(labels);
}

prometheus::Gauge& MetricRegistry::AddGauge(const MetricFacts& facts,
                                            const MetricLabels& labels) {
  CheckFacts(facts);
  return prometheus::BuildGauge()
      .Name(facts.name)
      .Help(facts.help)
      .Labels(constant_)
      .Register(registry_)
      .Add(labels);
}

prometheus::Histogram& MetricRegistry::AddHistogram(
    const MetricFacts& facts, const std::vector<double>& bounds,
    const MetricLabels& labels) {
  CheckFacts(facts);
  return prometheus::BuildHistogram()
      .Name(facts.name)
      .Help(facts.help)
      .Labels(constant_)
      .Register(registry_)
      .Add(labels, bounds);
}

void MetricRegistry::AddReader(std::function<void(MetricReadings&)> read) {
  readers_.push_back(std::move(read));
}

std::string MetricRegistry::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  for (const auto& read : readers_) {
    MetricReadings readings(constant_);
    read(readings);
    std::vector<prometheus::MetricFamily> more = readings.Take();
    std::move(more.begin(), more.end(), std::back_inserter(families));
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return std::move(text).str();
}

std::vector<double> ExponentialBounds(double first, double factor, int count) {
  std::vector<double> bounds;
  for (double bound = first; count > 0; --count, bound *= factor)
    bounds.push_back(bound);
  return bounds;
}

}  // namespace phalanx
