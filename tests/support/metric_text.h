#ifndef PHALANX_TESTS_SUPPORT_METRIC_TEXT_H_
#define PHALANX_TESTS_SUPPORT_METRIC_TEXT_H_

#include <limits>
#include <sstream>
#include <string>

namespace phalanx {

// The value of one series, as the text spells its name and labels; NaN if it
// is not there.
//   SeriesValue(text, "phalanx_requests_total{model=\"m\",outcome=\"stop\"}")
inline double SeriesValue(const std::string& text, const std::string& series) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line))
    if (line.rfind(series + " ", 0) == 0)
      return std::stod(line.substr(series.size() + 1));
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace phalanx

#endif  // PHALANX_TESTS_SUPPORT_METRIC_TEXT_H_
