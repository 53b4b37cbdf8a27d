#include "common/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <vector>

#include "nlohmann/json.hpp"

namespace phalanx {
namespace {

// Of one value: some come from clients.
constexpr size_t kMaxValueBytes = 2048;

std::vector<LogField>& Context() {
  static auto& context = *new std::vector<LogField>;
  return context;
}

std::atomic<int64_t> info_lines{0};
std::atomic<int64_t> warning_lines{0};
std::atomic<int64_t> error_lines{0};

std::string Timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const int millis =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(
                           now.time_since_epoch())
                           .count() %
                       1000);
  std::tm utc;
  gmtime_r(&seconds, &utc);
  char text[40];
  const size_t n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + n, sizeof(text) - n, ".%03dZ", millis);
  return text;
}

// Invalid UTF-8 is replaced: a log line must never throw.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text.substr(0, kMaxValueBytes))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Whether a terminal may show it as it is.
bool Plain(const std::string& text) {
  if (text.empty() || text.size() > kMaxValueBytes) return false;
  for (const char c : text)
    if (c <= ' ' || c == '"' || c == '=' || c == 0x7F) return false;
  return true;
}

void AppendField(const LogField& field, bool json, std::string& line) {
  if (json) {
    line += "," + Quoted(field.key) + ":";
    line += field.number ? field.text : Quoted(field.text);
  } else {
    line += " " + field.key + "=" +
            (Plain(field.text) ? field.text : Quoted(field.text));
  }
}

void Write(const char* level, absl::string_view module, absl::string_view event,
           LogFields fields) {
  static const bool json = isatty(STDERR_FILENO) == 0;
  std::string line;
  if (json) {
    line = "{\"time\":\"" + Timestamp() + "\",\"level\":\"" + level +
           "\",\"module\":" + Quoted(std::string(module)) +
           ",\"event\":" + Quoted(std::string(event));
  } else {
    line = std::string(1, level[0]) + " " + std::string(module) + " " +
           std::string(event);
  }
  for (const LogField& field : Context()) AppendField(field, json, line);
  for (const LogField& field : fields) AppendField(field, json, line);
  line += json ? "}\n" : "\n";
  // One write, so that lines of several processes on one pipe do not mix.
  [[maybe_unused]] const ssize_t n =
      write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

std::string LogField::RenderNumber(double value) {
  return nlohmann::json(value).dump();
}

void SetLogContext(LogFields fields) { Context() = fields; }

void LogInfo(absl::string_view module, absl::string_view event,
             LogFields fields) {
  info_lines.fetch_add(1, std::memory_order_relaxed);
  Write("INFO", module, event, fields);
}
void LogWarning(absl::string_view module, absl::string_view event,
                LogFields fields) {
  warning_lines.fetch_add(1, std::memory_order_relaxed);
  Write("WARNING", module, event, fields);
}
void LogError(absl::string_view module, absl::string_view event,
              LogFields fields) {
  error_lines.fetch_add(1, std::memory_order_relaxed);
  Write("ERROR", module, event, fields);
}

LogLineCounts CountedLogLines() {
  return {.info = info_lines.load(),
          .warning = warning_lines.load(),
          .error = error_lines.load()};
}

}  // namespace phalanx
