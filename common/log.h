#ifndef PHALANX_COMMON_LOG_H_
#define PHALANX_COMMON_LOG_H_

// One line per event on stderr: key=value on a terminal, JSON otherwise.
//
//   LogInfo("engine", "ready", {{"epoch", epoch}, {"seconds", seconds}});
//
// INFO for life events, WARNING for something refused or degraded, ERROR once
// per cause. Never prompt text, never per token, never inside a kernel.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/string_view.h"

namespace phalanx {

// A named value of a log line, rendered at construction.
struct LogField {
  template <typename T>
  LogField(absl::string_view name, const T& value) : key(name) {
    if constexpr (std::is_same_v<T, bool>) {
      text = value ? "true" : "false";
      number = true;
    } else if constexpr (std::is_arithmetic_v<T>) {
      text = RenderNumber(value);
      number = true;
    } else {
      text = std::string(value);
    }
  }

  std::string key;
  std::string text;
  bool number = false;  // Printed without quotes in JSON.

 private:
  static std::string RenderNumber(double value);
  static std::string RenderNumber(float value) {
    return RenderNumber(static_cast<double>(value));
  }
  template <typename T>
  static std::string RenderNumber(T value) {
    return std::to_string(value);
  }
};

using LogFields = std::initializer_list<LogField>;

// Fields that every later line of this process carries (rank=1). Call before
// any thread starts.
void SetLogContext(LogFields fields);

// Any thread; a line is written whole, each value cut to 2 KiB.
void LogInfo(absl::string_view module, absl::string_view event,
             LogFields fields = {});
void LogWarning(absl::string_view module, absl::string_view event,
                LogFields fields = {});
void LogError(absl::string_view module, absl::string_view event,
              LogFields fields = {});

// Lines of this process so far, for metrics. Any thread.
struct LogLineCounts {
  int64_t info = 0;
  int64_t warning = 0;
  int64_t error = 0;
};
LogLineCounts CountedLogLines();

}  // namespace phalanx

#endif  // PHALANX_COMMON_LOG_H_
