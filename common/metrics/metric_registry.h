#ifndef PHALANX_COMMON_METRICS_METRIC_REGISTRY_H_
#define PHALANX_COMMON_METRICS_METRIC_REGISTRY_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace phalanx {

using MetricLabels = std::map<std::string, std::string>;

// A family of series. `help` is one line without backslashes: prometheus-cpp
// 1.0.1 writes it as it is, and one bad line makes Prometheus refuse a scrape.
struct MetricFacts {
  const char* name;
  const char* help;
};

// The numbers of one scrape that are read only then, because their truth lives
// elsewhere. Families come in the order of their first series.
class MetricReadings {
 public:
  explicit MetricReadings(const MetricLabels& constant) : constant_(constant) {}

  void Gauge(const MetricFacts& facts, double value,
             const MetricLabels& labels = {});
  // Never goes down while the process lives.
  void Counter(const MetricFacts& facts, double value,
               const MetricLabels& labels = {});

  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  void Add(const MetricFacts& facts, prometheus::MetricType type, double value,
           const MetricLabels& labels);

  const MetricLabels& constant_;
  std::vector<prometheus::MetricFamily> families_;
};

// The series of one process. Made and filled before its MetricsServer starts;
// outlives that and everybody who holds a series. Series are for any thread and
// cost some 10 ns an event: look them up once, keep the reference.
//
// A series exists, at 0, from the moment it is added, so add every value of a
// closed set of labels at once. Names and help texts are constants of ours: a
// wrong one CHECK-fails.
class MetricRegistry {
 public:
  // Every series carries the constant labels.
  explicit MetricRegistry(MetricLabels constant = {});

  prometheus::Counter& AddCounter(const MetricFacts& facts,
                                  const MetricLabels& labels = {});
  prometheus::Gauge& AddGauge(const MetricFacts& facts,
                              const MetricLabels& labels = {});
  // `bounds`: upper bounds of the buckets, ascending, without the infinite one.
  prometheus::Histogram& AddHistogram(const MetricFacts& facts,
                                      const std::vector<double>& bounds,
                                      const MetricLabels& labels = {});

  // `read` is called at each scrape, on the server's threads, several at once.
  // Its families are not those of any other source.
  void AddReader(std::function<void(MetricReadings&)> read);

  // All series in the text format, version 0.0.4. Any thread.
  std::string Text() const;

 private:
  const MetricLabels constant_;
  prometheus::Registry registry_;
  std::vector<std::function<void(MetricReadings&)>> readers_;
};

// first, first * factor, ...: `count` bounds.
std::vector<double> ExponentialBounds(double first, double factor, int count);

}  // namespace phalanx

#endif  // PHALANX_COMMON_METRICS_METRIC_REGISTRY_H_
